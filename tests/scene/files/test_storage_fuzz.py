"""Saved trees spoiled at random: an error that says so, or a tree that is safe to ask.

Files are spoiled in three ways. A file whose bytes are changed is refused, always. One whose header
or arrays are changed and signed anew is refused, or it is a tree: one that answers, and, where it
passes the audit, answers as brute force over its primitives does.
"""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.io.file_formats import MAX_ID_ROWS, MAX_NODES
from bvh.runtime.simd import WIDTH
from tests.cases.saved_trees import KINDS, Parts, signed_header, tree_of
from tests.cases.soups import rays_at
from tests.oracles import brute

pytestmark = pytest.mark.unaudited
Rng = np.random.Generator
Rays = tuple[np.ndarray, np.ndarray]

ALL = int(os.environ.get("BVH_FUZZ_FILES", "10000"))
# What the interpreter takes for messages and small objects.
OVERHEAD = 1 << 16

INTEGERS = (0, 1, 2, -1, -2, -8, -9, 7, 8, 2**31 - 1, -(2**31), 2**30)
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, -1e300, 1e38, 5e-324)


def flip_bits(rng: Rng, data: bytearray) -> bytearray:
    """Flip a few bits."""
    for at in rng.integers(0, len(data), rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))
    return data


def cut(rng: Rng, data: bytearray) -> bytearray:
    """Cut the end off, or a piece out."""
    begin = int(rng.integers(len(data)))
    end = len(data) if rng.random() < 0.5 else begin + int(rng.integers(1, 200))
    return data[:begin] + data[end:]


def insert(rng: Rng, data: bytearray) -> bytearray:
    """Put bytes in between, or behind."""
    at = int(rng.integers(len(data) + 1))
    return data[:at] + rng.bytes(int(rng.integers(1, 200))) + data[at:]


def duplicate(rng: Rng, data: bytearray) -> bytearray:
    """Write a piece over another, or once more."""
    size = int(rng.integers(1, 300))
    begin, at = (int(k) for k in rng.integers(0, len(data), 2))
    piece = data[begin : begin + size]
    return data[:at] + piece + data[at + len(piece) if rng.random() < 0.5 else at :]


def blank(rng: Rng, data: bytearray) -> bytearray:
    """Zero a piece, as a disk that has lost a block does."""
    at = int(rng.integers(len(data))) // 64 * 64
    data[at : at + 64] = bytes(len(data[at : at + 64]))
    return data


def field(rng: Rng, data: bytearray) -> bytearray:
    """Change a number of the header, and sign it."""
    size = int(rng.choice([1, 4, 8]))
    at = int(rng.integers(0, 600)) // size * size
    old = int.from_bytes(data[at : at + size], "little")
    values = [0, 1, 2, old + 1, old - 1, old * 2, -1, 2 ** (8 * size - 1), int(rng.integers(2**31))]
    new = values[rng.integers(len(values))] % 2 ** (8 * size)
    data[at : at + size] = new.to_bytes(size, "little")
    return signed_header(data)


def counts(rng: Rng, data: bytearray) -> bytearray:
    """Change counts or kind, fit the arrays to them, and sign all."""
    parts = Parts(bytes(data))
    changes: dict[str, Any] = {}
    for name, most in (("points", 2**31 - 2), ("primitives", 2**30), ("nodes", MAX_NODES),
                       ("rows", MAX_ID_ROWS)):  # fmt: skip
        if rng.random() < 0.4:
            old = getattr(parts.header, name)
            new = int(rng.choice([0, 1, old - 1, old + 1, old // 2, old * 2]))
            changes[name] = min(max(new, 0), most)
    if rng.random() < 0.2:
        changes["kind"] = str(rng.choice(KINDS))
    if rng.random() < 0.2:
        changes["width"] = int(rng.choice([4, 8, 16]))
    if rng.random() < 0.2:
        bounds = list(parts.header.bounds)
        bounds[rng.integers(6)] = float(rng.choice(FLOATS))
        changes["bounds"] = tuple(bounds)
    if changes.get("kind", parts.header.kind) != "triangles":
        changes["primitives"] = changes.get("points", parts.header.points)
    return bytearray(parts.joined(**changes))


def entries(rng: Rng, data: bytearray) -> bytearray:
    """Change entries of arrays, and sign them."""
    parts = Parts(bytes(data))
    n = {"nodes": parts.header.nodes, "rows": parts.header.rows, "ids": parts.header.primitives,
         "points": parts.header.points}  # fmt: skip
    near = [k + d for k in (*n.values(), ~(8 * n["rows"])) for d in (-1, 0, 1)]
    words = parts.arrays["blocks"].reshape(-1, 8, WIDTH)
    wholes = [words.view(np.int32)[:, 6], words.view(np.int32)[:, 7], parts.ids]
    wholes += [parts.arrays[name] for name in ("faces",) if name in parts.arrays]
    reals = [words[:, :6], parts.arrays["points"], parts.arrays["frame"], parts.arrays["groups"]]
    for _ in range(rng.integers(1, 4)):
        array = [*wholes, *wholes, *reals][rng.integers(2 * len(wholes) + len(reals))]
        if array.size == 0:
            continue
        at = np.unravel_index(rng.integers(array.size), array.shape)
        other = array[np.unravel_index(rng.integers(array.size), array.shape)]
        choice = rng.integers(4)
        with np.errstate(over="ignore"):
            if choice == 0:
                array[at] = other
            elif array.dtype.kind == "i":
                new = int(rng.choice([*INTEGERS, *near, int(array[at]) + rng.integers(-9, 9)]))
                array[at] = np.int64(new).astype(np.int32)
            elif choice == 1:
                array[at] = rng.choice(FLOATS)
            else:
                array[at] *= 1.0 + rng.normal() * 10.0 ** -rng.integers(1, 16)
    return bytearray(parts.joined())


def swap(rng: Rng, data: bytearray) -> bytearray:
    """Exchange two nodes, rows, groups, faces or vertices, and sign them."""
    parts = Parts(bytes(data))
    name = str(rng.choice(list(parts.arrays)))
    array = parts.arrays[name]
    if name in ("blocks", "groups"):
        array = array.reshape(-1, (8 if name == "blocks" else 12) * WIDTH)
    if len(array) > 1:
        i, j = rng.integers(0, len(array), 2)
        array[[i, j]] = array[[j, i]]
    return bytearray(parts.joined())


def move(rng: Rng, data: bytearray) -> bytearray:
    """Move vertices within the bounds, make all copies fit, and sign all: legitimate data."""
    parts = Parts(bytes(data))
    points = parts.arrays["points"]
    i, j = rng.integers(0, len(points), 2)
    axis = rng.integers(points.shape[1])
    points[i, axis] = 0.5 * (points[i, axis] + points[j, axis])
    if "faces" in parts.arrays:
        if rng.random() < 0.3:
            faces = parts.arrays["faces"]
            faces[rng.integers(len(faces)), rng.integers(3)] = rng.integers(len(points))
        parts.repack()
    return bytearray(parts.joined())


Spoil = Callable[[Rng, bytearray], bytearray]
RAW: tuple[Spoil, ...] = (flip_bits, cut, insert, duplicate, blank)
SIGNED: tuple[Spoil, ...] = (field, counts, entries, entries, entries, swap, move)


def ask(tree: BVH, rays: Rays) -> tuple[Any, Any]:
    """Ask a tree in every way there is; return the hits."""
    hits, found = tree.closest_hit(*rays, threads=1), tree.any_hit(*rays, threads=1)
    tree.closest_hit(*rays, sort=True, threads=1)
    tree.closest_hit(rays[0][0], rays[1][0])
    for prim in (hits.prim_id.min(initial=-1), hits.prim_id.max(initial=-1)):
        assert -1 <= prim < max(len(tree), 1)
    assert len(repr(tree)) and len(str(tree.stats()))
    return hits, found


def try_file(path: Path, mmap: bool, rays: Rays) -> str:
    """Load and ask a spoiled file; return what became of it."""
    size = path.stat().st_size
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    flaw = None
    try:
        tree = bvh.load(path, mmap=mmap, threads=1)
        tree.arrays  # noqa: B018
    except ValueError as error:
        assert str(path) in str(error)
        flaw = error
    except bvh.BVHWarning:
        return "other width"
    taken = tracemalloc.get_traced_memory()[1] - before
    assert taken < 2 * size + OVERHEAD, (taken, size)
    if flaw is not None:
        return "refused"
    hits, found = ask(tree, rays)
    try:
        tree.validate()
    except ValueError:
        return "fails the audit"
    t, prim = brute.closest_hit(tree, *rays)
    assert np.array_equal(hits.t, t) and np.array_equal(hits.prim_id, prim)
    assert np.array_equal(found, prim >= 0)
    return "sound"


def spoil_files(
    total: int, picked: Callable[[], tuple[bytes, Callable[[Path], str]]], signed: Sequence[Spoil],
    raw_share: float, path: Path, rng: Rng,
) -> Counter[str]:  # fmt: skip
    """Spoil and try files; return how often each thing became of them.

    ``picked()`` returns the bytes of a good file, and the function that tries one that is spoiled.
    """
    results: Counter[str] = Counter()
    tracemalloc.start()
    try:
        for i in range(total):
            data, tried = picked()
            raw = bool(rng.random() < raw_share)
            spoil = (RAW if raw else signed)[rng.integers(len(RAW if raw else signed))]
            spoiled = bytes(spoil(rng, bytearray(data)))
            path.unlink(missing_ok=True)
            path.write_bytes(spoiled)
            try:
                result = tried(path)
            except BaseException:
                print(f"file {i}, {spoil.__name__}, {len(data)} bytes")
                raise
            if spoiled == data:
                assert result == "sound"
            elif raw:
                assert result == "refused", spoil.__name__
            results[f"{spoil.__name__}: {result}"] += 1
    finally:
        tracemalloc.stop()
    return results


def run(total: int, mmap: bool, tmp_path: Path, rng: Rng) -> Counter[str]:
    """Spoil and try files of trees; return how often each thing became of them."""
    files = []
    for kind in KINDS:
        for n in (1, 40):
            tree = tree_of(kind, rng, n)
            tree.save(tmp_path / "good.bvh")
            rays = rays_at(tree, rng, 48)
            # Compiling is not loading.
            ask(bvh.load(tmp_path / "good.bvh"), rays)
            brute.closest_hit(tree, *rays)
            files.append(((tmp_path / "good.bvh").read_bytes(), rays))

    def picked() -> tuple[bytes, Callable[[Path], str]]:
        # Triangles have the most to spoil.
        data, rays = files[1 if rng.random() < 0.5 else rng.integers(len(files))]
        return data, partial(try_file, mmap=mmap, rays=rays)

    return spoil_files(total, picked, SIGNED, 0.4, tmp_path / "bad.bvh", rng)


@pytest.mark.filterwarnings("error::bvh.BVHWarning")
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("share", [150, pytest.param(400, marks=pytest.mark.long)])
def test_spoiled_files(share: int, mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """A share of what the slow test tries."""
    results = run(share, mmap, tmp_path, rng)
    assert sum(results.values()) == share
    assert sum(count for name, count in results.items() if name.endswith("refused")) > share // 2


@pytest.mark.slow
@pytest.mark.filterwarnings("error::bvh.BVHWarning")
@pytest.mark.parametrize("mmap", [False, True])
def test_many_spoiled_files(mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """Ten thousand, read and mapped."""
    results = run(ALL, mmap, tmp_path, rng)
    for name, count in sorted(results.items()):
        print(f"{count:6d} {name}")
    assert sum(results.values()) == ALL
    assert {name.split(": ")[1] for name in results} >= {"refused", "sound", "fails the audit"}
