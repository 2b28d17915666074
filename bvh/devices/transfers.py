"""Base class of calls; numpy arrays to a device and back, in chunks, through reused buffers.

Host memory for GPUs is pinned, so that they read and write it. While a device works on a chunk,
threads copy the next one into such memory, and the answers of the last one out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices import exchange
from bvh.devices.stages.work import Columns, DeviceRays
from bvh.runtime.arguments import ALL_BITS, bit_masks

# Rays or points at a time; threads that copy; how many buffers are kept for further calls.
CHUNK, THREADS, KEPT = 2**20, 8, 96

# Names of columns of answers; copies that threads are making.
Names = Sequence[str]
Copies = list[Future[None]]


def _start_copies(
    pool: ThreadPoolExecutor | None, copies: Iterable[tuple[NDArray[Any], NDArray[Any]]]
) -> Copies:
    """Copy arrays, pairs (target, source), by threads of a pool; `_finish` waits for the result.

    Without a pool they are copied at once, and the result is empty.
    """
    if pool is not None:
        return [pool.submit(np.copyto, *pair) for pair in copies]
    for pair in copies:
        np.copyto(*pair)
    return []


def _finish(copies: Copies) -> None:
    for future in copies:
        future.result()


def item_type(kind: Any, name: str) -> Any:
    """Return Warp's type of the items in the array `name` of structs of type `kind`."""
    return kind.vars[name].type.dtype


class Buffer(NamedTuple):
    """An array on a device, and its copy on the host; both are one on Warp's CPU device."""

    there: Any
    here: Any
    rows: NDArray[Any]  # the memory of `here`, as an array of numpy


class Buffers:
    """Buffers on a device, and structs of them, which are kept for further calls."""

    def __init__(self, device: Any) -> None:
        # Buffers by the arguments of `get`, and structs by (type, ids of their arrays).
        self.device, self.kept = device, dict[Any, Any]()

    def drop_old(self) -> None:
        """Drop all buffers if there are more than KEPT; not within a call, which uses them."""
        if len(self.kept) > KEPT:
            self.kept.clear()

    def get(self, kind: Any, name: str, turn: int, count: int) -> Buffer:
        """Return a buffer of `count` items for the field `name` of structs of type `kind`.

        There are two of each: `turn`, 0 or 1, alternates from chunk to chunk, so that a chunk can
        be copied while the one before is still in use.
        """
        key = kind, name, turn, count
        if key not in self.kept:
            dtype = item_type(kind, name)
            here = there = wp.empty(count, dtype=dtype, device=self.device)
            if self.device.is_cuda:
                here = wp.empty(count, dtype=dtype, device="cpu", pinned=True)
            self.kept[key] = Buffer(there, here, here.numpy())
        buffer: Buffer = self.kept[key]
        return buffer

    def struct(self, kind: Any, arrays: dict[str, Any]) -> Any:
        """Return a struct of type `kind` with fields `arrays`, the same one for the same arrays."""
        key = kind, *map(id, arrays.values())
        if key not in self.kept:
            self.kept[key] = kind()
            for name, array in arrays.items():
                setattr(self.kept[key], name, array)
        return self.kept[key]


class Call:
    """Base class of a query of rays or points by `owner`, a tree or scene on a device.

    Kernels list the rays or points that they do not decide; the CPU answers these.
    """

    def __init__(
        self, owner: Any, arguments: Mapping[str, str], values: tuple[Any, ...],
        batch: Callable[..., tuple[Iterable[NDArray[Any]], tuple[int, ...]]],
    ) -> None:  # fmt: skip
        """Read the `values` of `arguments`, which has the fields of `DeviceRays` by name.

        For values of numpy, batch(*values) checks them and returns their rows, an array for each
        argument, and their leading shape.
        """
        # Answers are in the library of `like`, None for numpy.
        self.owner, self.device, self.like = owner, owner.device, exchange.first_on_device(*values)
        # All kernels of the call, and the CPU, query this target, even if the tree changes. `turn`
        # is that of the present chunk's buffers (see `Buffers.get`).
        self.target, self.turn, owner.undecided = owner._current_target(), 0, 0
        # The rays on the device: all or, for values of numpy, those of the present chunk.
        self.rays: Any = None
        # For values of numpy, by field of `DeviceRays`: rows on the host, and arrays of one number,
        # which all rays share, on the device.
        self.rows_of: dict[str, NDArray[Any]] = {}
        self.shared: dict[str, Any] = {}
        if self.like is None:
            columns, self.shape = batch(*values)
            for column, rows in zip(arguments.values(), columns, strict=True):
                if rows.size == 1:
                    kind = item_type(DeviceRays, column)
                    self.shared[column] = exchange.one_number(rows.item(), kind, self.device.alias)
                else:
                    self.rows_of[column] = rows
        else:
            self.rays, shapes = DeviceRays(), {}
            with exchange.stream_of(self.like, self.device):
                for (name, column), value in zip(arguments.items(), values, strict=True):
                    if name == "mask" and not exchange.is_on_device(value):
                        value = bit_masks(name, ALL_BITS if value is None else value)
                        value = value.view(np.int32)
                    kind = item_type(DeviceRays, column)
                    array, shapes[name] = exchange.read(name, value, self.device, kind)
                    setattr(self.rays, column, array)
            self.shape = _common_shape(shapes)
        self.count = int(np.prod(self.shape))

    @property
    def host(self) -> Any:
        """The tree or scene on the CPU, in the state that the call queries."""
        return self.owner._on_cpu()

    def columns(
        self, names: Names, answer: Callable[[slice], Any], offsets: Any = None
    ) -> dict[str, Any]:
        """Return the columns `names` of answers in the library of the arguments.

        They are numbers for a single ray of numpy. `answer` is called for ranges of rays, one after
        the other, and returns a `Columns`. Ray i has one row in the result or, with `offsets`, the
        rows from offsets[i] up to offsets[i + 1].
        """
        shape = self.shape if offsets is None else (int(offsets[-1]),)
        if self.like is not None:
            result = answer(slice(0, self.count))
            columns = {name: getattr(result, name) for name in names}
            return {k: exchange.to_library(x, shape, self.like) for k, x in columns.items()}
        self.owner.buffers.drop_old()
        found, size = {}, int(np.prod(shape))
        for name in names:
            dtype, item = exchange.numpy_type(item_type(Columns, name))
            found[name] = np.empty((size, *item), dtype)
        parts = [slice(k, min(k + CHUNK, self.count)) for k in range(0, max(self.count, 1), CHUNK)]
        # Copies out of the buffers of each turn.
        draining: list[Copies] = [[], []]
        with ThreadPoolExecutor(THREADS) if len(parts) > 1 else nullcontext() as pool:
            sent, filling = self._fill(pool, parts[0], 0)
            for k, part in enumerate(parts):
                _finish(filling)
                if self.device.is_cuda:
                    for buffer in sent.values():
                        wp.copy(buffer.there, buffer.here)
                arrays = self.shared | {name: buffer.there for name, buffer in sent.items()}
                self.rays = self.owner.buffers.struct(DeviceRays, arrays)
                if k + 1 < len(parts):
                    sent, filling = self._fill(pool, parts[k + 1], (k + 1) % 2)
                self.turn, self.count = k % 2, part.stop - part.start
                _finish(draining[self.turn])
                answer(part)
                if offsets is not None:
                    part = slice(offsets[part.start], offsets[part.stop])
                buffers = self._buffers(names, part.stop - part.start)
                if self.device.is_cuda:
                    for buffer in buffers.values():
                        wp.copy(buffer.here, buffer.there)
                    wp.synchronize_stream(wp.get_stream(self.device))
                copies = ((found[name][part], buffer.rows) for name, buffer in buffers.items())
                draining[self.turn] = _start_copies(pool, copies)
            _finish(draining[0] + draining[1])
        return {
            name: x.reshape((*shape, *x.shape[1:])) if shape or x.ndim > 1 else x.item()
            for name, x in found.items()
        }

    def _fill(
        self, pool: ThreadPoolExecutor | None, part: slice, turn: int
    ) -> tuple[dict[str, Buffer], Copies]:
        """Begin to copy the rays `part` into buffers; return (buffers by field, copies begun)."""
        copies, buffers = [], {}
        for name, rows in self.rows_of.items():
            some = rows[part] if len(rows) > 1 else rows
            buffers[name] = self.owner.buffers.get(DeviceRays, name, turn, len(some))
            copies.append((buffers[name].rows, some))
        return buffers, _start_copies(pool, copies)

    def _buffers(self, names: Names, count: int) -> dict[str, Buffer]:
        """Return this turn's buffers for the columns `names` of `count` answers, by name."""
        get = self.owner.buffers.get
        return {name: get(Columns, name, self.turn, count) for name in names}

    def empty(self, names: Names, count: int) -> Any:
        """Return a `Columns` with room for `count` answers in the columns `names`.

        For arguments of numpy its arrays are buffers, which the next call uses again.
        """
        if self.like is None:
            buffers = self._buffers(names, count)
            columns = {name: buffer.there for name, buffer in buffers.items()}
            return self.owner.buffers.struct(Columns, columns)
        result = Columns()
        for name in names:
            dtype = item_type(Columns, name)
            setattr(result, name, wp.empty(count, dtype=dtype, device=self.device))
        return result

    def launch(self, kernel: Any, *inputs: Any) -> None:
        """Launch a kernel with a thread for each ray or point of the chunk."""
        with exchange.stream_of(self.like, self.device):
            wp.launch(kernel, self.count, inputs=[*inputs], device=self.device)

    def trace(self, result: Any, rays: Any, query: Any) -> NDArray[np.int32]:
        """Write answers into `result`, a `Columns`; return the indices of rays not decided.

        `rays` are a `DeviceRays`, rays or points, and `query` is a `RayQuery`.
        """
        with exchange.stream_of(self.like, self.device):
            undecided: NDArray[np.int32] = self.owner.stages.trace(
                self.target, rays, query, result, self.count
            )
        return undecided

    def selected(self, column: str, rows: NDArray[np.int32]) -> NDArray[Any]:
        """Return `rows` of a field of `self.rays` in numpy; one that all rays share is repeated."""
        array = getattr(self.rays, column)
        if array.shape[0] > 1:
            array = array[wp.array(rows, dtype=wp.int32, device=self.device)].contiguous()
        return np.broadcast_to(array.numpy(), (len(rows), *exchange.numpy_type(array.dtype)[1]))

    def settle(
        self, result: Any, undecided: NDArray[np.int32], answers: Callable[[], dict[str, Any]],
        rows: NDArray[Any],
    ) -> None:  # fmt: skip
        """Write the CPU's answers for the rays `undecided` into `rows` of `result`, a `Columns`.

        `answers` computes them, by column; it is called only if there are rows.
        """
        self.owner.undecided += len(undecided)
        if len(rows):
            where = wp.array(rows, dtype=wp.int32, device=self.device)
            with exchange.stream_of(self.like, self.device):
                for name, values in answers().items():
                    column = getattr(result, name)
                    fresh = wp.array(np.asarray(values), dtype=column.dtype, device=self.device)
                    wp.copy(column[where], fresh)


def _common_shape(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the leading shape that arguments have in common; `shapes` are theirs, by name.

    Arguments of one item are for all rays, and may have any shape. A ValueError names an argument
    of another shape.
    """
    several = {name: shape for name, shape in shapes.items() if np.prod(shape) != 1}
    common = max(several.values() or shapes.values(), key=len)
    for name, shape in several.items():
        if shape != common:
            wanted = f"have the leading shape {common} of other arguments, or be one for all"
            raise ValueError(f"{name} must {wanted}, got {shape}")
    return common
