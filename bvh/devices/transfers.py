"""Calls of a device, and numpy's arrays on their way to it and back: in chunks, by kept memory.

Host memory of GPUs is pinned, so that they read and write it. While a device works on a chunk,
threads copy the next one into such memory, and the answers of the last one out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import KINDS, given, library_of, stream_of
from bvh.devices.stages.work import Columns, DeviceRays

# Rays or points at a time; threads that copy; how many buffers are kept for further calls.
CHUNK, THREADS, KEPT = 2**20, 8, 96

Kinds = dict[str, type[np.generic]]
HIT_COLUMNS: Kinds = {
    "t": np.float64, "prim_id": np.int32, "u": np.float64, "v": np.float64, "front": np.bool_,
}  # fmt: skip
SCENE_COLUMNS: Kinds = HIT_COLUMNS | {"instance_id": np.int32, "leaf": np.int32}
PLACE_COLUMNS: Kinds = {
    "distance": np.float64, "position": np.float64, "prim_id": np.int32, "u": np.float64,
    "v": np.float64,
}  # fmt: skip
DISTANCES: Kinds = {"distance": np.float64}
ALL_COLUMNS = SCENE_COLUMNS | PLACE_COLUMNS | {"truth": np.bool_, "counts": np.int64}

Copies = Iterable[tuple[NDArray[Any], NDArray[Any]]]


def chunks(count: int) -> list[slice]:
    """Return the ranges of chunks; one if there is nothing."""
    return [slice(k, min(k + CHUNK, count)) for k in range(0, max(count, 1), CHUNK)]


class Buffer(NamedTuple):
    """An array on a device, and on the host; these are one on Warp's CPU device."""

    there: Any
    here: Any
    rows: NDArray[Any]  # the latter, as numpy's

    def send(self) -> None:
        """Copy it to the device."""
        if self.there is not self.here:
            wp.copy(self.there, self.here)

    def fetch(self) -> None:
        """Copy it to the host, as soon as the device has written it."""
        if self.there is not self.here:
            wp.copy(self.here, self.there)


class Buffers:
    """Buffers, and structs of them, by their keys; those of the last sizes are kept."""

    def __init__(self, device: Any) -> None:
        self.device, self.kept = device, dict[Any, Any]()

    def drop_old(self) -> None:
        """Drop all, if they are many; not within a call, whose buffers stay the same."""
        if len(self.kept) > KEPT:
            self.kept.clear()

    def get(self, name: str, turn: int, dtype: Any, count: int) -> Buffer:
        """Return a buffer; those of two turns are different ones."""
        key = name, turn, count
        if key not in self.kept:
            here = there = wp.empty(count, dtype=dtype, device=self.device)
            if self.device.is_cuda:
                here = wp.empty(count, dtype=dtype, device="cpu", pinned=True)
            self.kept[key] = Buffer(there, here, here.numpy())
        found: Buffer = self.kept[key]
        return found

    def struct(self, kind: Any, arrays: dict[str, Any]) -> Any:
        """Return a struct with some arrays, the same for the same ones."""
        key = kind, *map(id, arrays.values())
        if key not in self.kept:
            self.kept[key] = kind()
            for name, array in arrays.items():
                setattr(self.kept[key], name, array)
        return self.kept[key]


class Copier:
    """Copies of arrays, in threads if there are several chunks."""

    def __init__(self, threaded: bool) -> None:
        self.pool = ThreadPoolExecutor(THREADS) if threaded else None

    def start(self, copies: Copies) -> list[Future[None]]:
        """Begin, or make, copies of pairs (target, source)."""
        if self.pool is None:
            for pair in copies:
                np.copyto(*pair)
            return []
        return [self.pool.submit(np.copyto, *pair) for pair in copies]

    def finish(self, running: list[Future[None]]) -> None:
        """Wait for copies."""
        for future in running:
            future.result()

    def close(self) -> None:
        """End the threads."""
        if self.pool is not None:
            self.pool.shutdown()


class Call:
    """Base class of a query of rays or points by `owner`, a tree or scene on a device.

    Kernels list the rays or points that they do not decide; the CPU answers these. `like` is the
    argument whose library the answers are in, None for numpy; then the rays are on the `host`, and
    on the device chunk by chunk.
    """

    # The leading shape of the rays or points; their number, and what is on the device of them.
    shape: tuple[int, ...]
    count: int
    rays: Any
    # Arrays of numpy, by name; others that all chunks share, on the device.
    rows_of: dict[str, NDArray[Any]]
    shared: dict[str, Any]

    def __init__(self, owner: Any, *given: Any) -> None:
        self.owner, self.device, self.like = owner, owner.device, library_of(*given)
        # All kernels of the call, and the CPU, query this state, even if the tree changes.
        self.target, self.turn, owner.undecided = owner._state(), 0, 0

    @property
    def host(self) -> Any:
        """What is searched, on the CPU."""
        return self.owner._on_cpu()

    def columns(
        self, kinds: Kinds, answer: Callable[[slice], Any], offsets: Any = None
    ) -> dict[str, Any]:
        """Return columns of answers, in the library of the arguments; numbers for one ray of numpy.

        `answer` returns a struct with those of a range of rays; with `offsets` of these, it has so
        many answers of each.
        """
        shape = self.shape if offsets is None else (int(offsets[-1]),)
        if self.like is not None:
            result = answer(slice(0, self.count))
            return {
                name: given(getattr(result, name), shape, self.like, 3 * (name == "position"))
                for name in kinds
            }
        size, buffers = int(np.prod(shape)), self.owner.buffers
        buffers.drop_old()
        found = {
            name: np.empty((size, 3) if name == "position" else size, kind)
            for name, kind in kinds.items()
        }
        parts, draining = chunks(self.count), dict[int, Any]({0: [], 1: []})
        copier = Copier(len(parts) > 1)
        try:
            sent, filling = self._filled(copier, parts[0], 0)
            for k, part in enumerate(parts):
                copier.finish(filling)
                for buffer in sent.values():
                    buffer.send()
                arrays = self.shared | {name: buffer.there for name, buffer in sent.items()}
                self.rays = buffers.struct(DeviceRays, arrays)
                if k + 1 < len(parts):
                    sent, filling = self._filled(copier, parts[k + 1], (k + 1) % 2)
                self.turn, self.count = k % 2, part.stop - part.start
                copier.finish(draining[self.turn])
                answer(part)
                if offsets is not None:
                    part = slice(offsets[part.start], offsets[part.stop])
                columns = {name: self._buffer(name, part.stop - part.start) for name in kinds}
                for buffer in columns.values():
                    buffer.fetch()
                if self.device.is_cuda:
                    wp.synchronize_stream(wp.get_stream(self.device))
                draining[self.turn] = copier.start(
                    (found[name][part], buffer.rows) for name, buffer in columns.items()
                )
            copier.finish(draining[0] + draining[1])
        finally:
            copier.close()
        return {
            name: x.reshape((*shape, *x.shape[1:])) if shape or x.ndim > 1 else x.item()
            for name, x in found.items()
        }

    def _filled(self, copier: Copier, part: slice, turn: int) -> tuple[dict[str, Buffer], Any]:
        """Begin to copy a range of rays; return the buffers, and the copies that go on."""
        copies, found = [], {}
        for name, rows in self.rows_of.items():
            some = rows[part] if len(rows) > 1 else rows
            dtype = wp.vec3d if rows.ndim > 1 else KINDS[rows.dtype.type]
            found[name] = self.owner.buffers.get(name, turn, dtype, len(some))
            copies.append((found[name].rows, some))
        return found, copier.start(copies)

    def _buffer(self, name: str, count: int) -> Buffer:
        """Return the buffer of a column."""
        dtype = wp.vec3d if name == "position" else KINDS[ALL_COLUMNS[name]]
        found: Buffer = self.owner.buffers.get(f"column {name}", self.turn, dtype, count)
        return found

    def empty(self, kinds: Kinds, count: int) -> Any:
        """Return a struct of columns for `count` answers, whose memory calls of numpy share."""
        if self.like is None:
            columns = {name: self._buffer(name, count).there for name in kinds}
            return self.owner.buffers.struct(Columns, columns)
        result = Columns()
        for name, kind in kinds.items():
            dtype = wp.vec3d if name == "position" else KINDS[kind]
            setattr(result, name, wp.empty(count, dtype=dtype, device=self.device))
        return result

    def trace(self, result: Any, rays: Any, query: Any) -> NDArray[np.int32]:
        """Answer rays or points in stages; return the indices of those not decided."""
        with stream_of(self.like, self.device):
            undecided: NDArray[np.int32] = self.owner.stages.trace(
                self.target, rays, query, result, self.count
            )
        return undecided

    def rows(self, array: Any, undecided: NDArray[np.int32]) -> NDArray[Any]:
        """Return rows of an array on the device; if it has one row for all, that one."""
        if array.shape[0] > 1:
            array = array[wp.array(undecided, dtype=wp.int32, device=self.device)].contiguous()
        result: NDArray[Any] = array.numpy()
        return result

    def write(self, result: Any, places: NDArray[np.int32], answers: dict[str, Any]) -> None:
        """Write the CPU's answers, by column, into the rows `places` of the struct `result`."""
        where = wp.array(places, dtype=wp.int32, device=self.device)
        with stream_of(self.like, self.device):
            for name, values in answers.items():
                column = getattr(result, name)
                fresh = wp.array(np.asarray(values), dtype=column.dtype, device=self.device)
                wp.copy(column[where], fresh)
