"""Files that are no trees, damaged trees, and trees made to do harm, with checksums that are right.

Each is a ValueError that says what is wrong, before any kernel runs and before memory is taken.
"""

from __future__ import annotations

import os
import struct
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.io.container import HEADER_SIZE
from bvh.io.file_formats import MAGIC, entries_of, unpacked
from bvh.io.untrusted import DEEPEST
from bvh.runtime.simd import WIDTH
from bvh.scene.files import loading as storage
from bvh.traversal.pairs.meeting_pairs import new_pair_search
from bvh.traversal.pairs.pair_walk import ENTRY
from bvh.traversal.points.scratch import new_scratch
from bvh.traversal.regions.region_search import new_search
from bvh.traversal.regions.regions import BoxRegions
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, NODE_SIZE
from tests.cases.saved_trees import Parts, signed_header, tree_of

pytestmark = pytest.mark.unaudited
Rng = np.random.Generator
Spoil = Callable[[Parts], Any]


def saved(kind: str, tmp_path: Path, rng: Rng, n: int = 2_000) -> bytes:
    """Return the file of a tree with several levels."""
    path = tmp_path / "good.bvh"
    tree_of(kind, rng, n).save(path)
    return path.read_bytes()


def assert_refused(data: bytes, match: str, tmp_path: Path) -> None:
    """Load a file in both ways; nothing may reach a kernel that walks trees."""
    path = tmp_path / "bad.bvh"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"bad\.bvh: .*(?:{match})"):
        bvh.load(path)
    with pytest.raises(ValueError, match=rf"bad\.bvh: .*(?:{match})"):
        bvh.load(path, mmap=True).closest_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0])


NO_TREES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a saved tree"),
    "a byte": (MAGIC[:1], "not a saved tree"),
    "text": (b"ply\nformat ascii 1.0\n" * 100, "not a saved tree"),
    "magic alone": (MAGIC, "cut off"),
    "zeros behind the magic": (MAGIC.ljust(5_000, b"\0"), "byte order mark"),
    "sent as text": (MAGIC.replace(b"\r\n", b"\n").ljust(5_000, b"\0"), "not a saved tree"),
    "a pickle": (b"\x80\x04" + bytes(5_000), "not a saved tree"),
}


@pytest.mark.parametrize("name", NO_TREES)
def test_files_that_are_no_trees(name: str, tmp_path: Path) -> None:
    """They are told from trees by their first bytes."""
    data, match = NO_TREES[name]
    assert_refused(data, match, tmp_path)
    assert storage.is_saved(tmp_path / "bad.bvh") == data.startswith(MAGIC)


def test_what_is_no_file(tmp_path: Path) -> None:
    """A folder, a device, and a pipe, for which nobody waits."""
    for mmap in (False, True):
        with pytest.raises(ValueError, match="not a folder of parts"):
            bvh.load(tmp_path, mmap=mmap)
        if hasattr(os, "mkfifo"):
            pipe = tmp_path / f"pipe{mmap}"
            os.mkfifo(pipe)
            with pytest.raises(ValueError, match="something else than a file"):
                bvh.load(pipe, mmap=mmap)
            with pytest.raises(ValueError, match="something else than a file"):
                bvh.load(os.devnull, mmap=mmap)


@pytest.mark.long
def test_every_byte_counts(tmp_path: Path, rng: Rng) -> None:
    """A bit flipped anywhere, padding included, is found; so is a byte more or less."""
    data = saved("triangles", tmp_path, rng, 8)
    path = tmp_path / "bad.bvh"
    for at in range(len(data)):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=r"bad\.bvh: "):
            bvh.load(path)
        if at % 16 == 0:
            with pytest.raises(ValueError, match=r"bad\.bvh: "):
                bvh.load(path, mmap=True).any_hit([0.0, 0.0, 5.0], [0.0, 0.0, -1.0])
    for length in {0, 1, 8, HEADER_SIZE - 1, HEADER_SIZE, len(data) // 2, len(data) - 1}:
        assert_refused(data[:length], "cut off|not a saved tree", tmp_path)
    assert_refused(data + b"\0", "too long", tmp_path)
    assert_refused(data + data, "too long", tmp_path)


# Where in the header, what to write there, and what is said; its checksum is right.
HEADERS: dict[str, tuple[int, str, Any, str]] = {
    "future version": (8, "<I", 7, "format version 7"),
    "other byte order": (12, ">I", 0x01020304, "byte order mark"),
    "size of the header": (16, "<I", 4096, "contradicts"),
    "kind": (20, "<I", 5, "unknown kind"),
    "quality": (24, "<I", 2**32 - 1, "unknown kind"),
    "width": (28, "<I", 32, "unknown kind"),
    "no width": (28, "<I", 0, "unknown kind"),
    "arrays": (32, "<I", 2**32 - 1, "contradicts itself"),
    "fewer arrays": (32, "<I", 5, "contradicts itself"),
    "something unused": (36, "<I", 1, "contradicts"),
    "vertices": (40, "<Q", 2**63, "more than a tree"),
    "more vertices": (40, "<Q", 2**31 - 2, "contradicts"),
    "primitives": (48, "<Q", 2**64 - 1, "more than a tree"),
    "primitives again": (48, "<Q", 2**30, "contradicts"),
    "nodes": (56, "<Q", 2**31, "more than a tree"),
    "nodes again": (56, "<Q", 2**31 - 1, "contradicts"),
    "rows": (64, "<Q", 2**28 + 1, "more than a tree"),
    "no rows": (64, "<Q", 0, "contradicts"),
    "time": (72, "<d", -1.0, "time or bounds"),
    "no time": (72, "<d", np.nan, "time or bounds"),
    "bounds": (80, "<d", np.nan, "time or bounds"),
    "infinite bounds": (80, "<d", -np.inf, "time or bounds"),
    "bounds turned round": (80, "<d", 1e9, "time or bounds"),
    "other bounds": (80, "<d", -1e9, "bounds are not those"),
    "file size": (128, "<Q", 2**60, "contradicts"),
    "name": (136, "<16s", b"groups", "contradicts"),
    "type": (152, "<8s", b"<f4", "contradicts"),
    "object type": (152, "<8s", b"|O", "contradicts"),
    "rows of an array": (160, "<Q", 2**64 - 1, "contradicts"),
    "columns of an array": (168, "<Q", 4, "contradicts"),
    "offset": (176, "<Q", 0, "contradicts"),
    "overlap": (176 + 72, "<Q", HEADER_SIZE, "contradicts"),
    "size": (184, "<Q", 2**63, "contradicts"),
    "digest": (192, "<Q", 0, "checksum of its array 'frame'"),
    "behind the table": (900, "<I", 1, "contradicts"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(name: str, tmp_path: Path, rng: Rng) -> None:
    """Each field that cannot be is found, however large; little memory is taken for it."""
    at, form, value, match = HEADERS[name]
    data = bytearray(saved("triangles", tmp_path, rng, 50))
    # Compiling is not loading.
    bvh.load(tmp_path / "good.bvh")
    struct.pack_into(form, data, at, value)
    tracemalloc.start()
    try:
        assert_refused(bytes(signed_header(data)), match, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(data) + (1 << 17)
    finally:
        tracemalloc.stop()


def chain(parts: Parts, depth: int, branches: bool = False) -> bytes:
    """Return the file of a tree with one node on each level, the last with all leaves."""
    blocks = np.zeros((depth, 8, WIDTH), np.float32)
    blocks[:, :3], blocks[:, 3:6] = np.inf, -np.inf
    blocks.view(np.int32)[:, 7] = parts.arrays["blocks"].view(np.int32)[7 * WIDTH : 8 * WIDTH]
    codes = blocks.view(np.int32)[:, 6]
    blocks[:, :3, 0], blocks[:, 3:6, 0] = -1.0, 1.0
    codes[:, 0] = np.arange(1, depth + 1)
    codes[-1, 0] = ~0
    parts.arrays["blocks"] = blocks.ravel()
    parts.arrays["frame"][2:] = [[-1.0], [1.0]]
    if branches:
        # Nodes to and fro: a path for every subset of levels.
        codes[:-2, 1] = np.arange(2, depth)
        blocks[:-2, :3, 1], blocks[:-2, 3:6, 1] = -1.0, 1.0
    return parts.joined(nodes=depth)


@pytest.mark.long
def test_deep_trees(tmp_path: Path, rng: Rng) -> None:
    """As deep as stacks are made for, and one deeper; and paths that meet again."""
    tree_of("boxes", rng, 1).save(tmp_path / "one.bvh")
    data = (tmp_path / "one.bvh").read_bytes()
    (tmp_path / "deep.bvh").write_bytes(chain(Parts(data), DEEPEST))
    tree = bvh.load(tmp_path / "deep.bvh", audit=True)
    assert tree.stats().depth == DEEPEST
    assert tree.any_hit([0.5, 0.5, 9.0], [0.0, 0.0, -1.0]) == bvh.load(
        tmp_path / "one.bvh"
    ).any_hit([0.5, 0.5, 9.0], [0.0, 0.0, -1.0])
    assert_refused(chain(Parts(data), DEEPEST + 1), "deeper than", tmp_path)
    assert_refused(chain(Parts(data), 100_000), "deeper than", tmp_path)
    assert_refused(chain(Parts(data), 40, branches=True), "another parent", tmp_path)


def test_stacks() -> None:
    """What the checks let pass has room on the stack of every query."""
    most = DEEPEST * (WIDTH - 1) + WIDTH
    search = new_search(BoxRegions(np.zeros((1, 3)), np.ones((1, 3))), 0)
    scratch = new_scratch()
    assert min(map(len, (search.stack, scratch.stack, scratch.squares))) >= most
    assert len(new_pair_search(0).stack) >= ENTRY * (DEEPEST * (WIDTH**2 - 1) + WIDTH**2)


# Entries of arrays, and what is said; p, k is the last lane with a child, q, l one with a leaf.
ARRAYS: dict[str, str] = {
    "codes[p, k] = p": "child that is out of range or comes before",
    "codes[p, k] = 0": "child that is out of range or comes before",
    "codes[p, k] = len(codes)": "child that is out of range",
    "codes[p, k] = 2**31 - 1": "child that is out of range",
    "codes[p, k] = codes[0][codes[0] > 0][0]": "comes before|another parent",
    "codes[0, 0] = len(codes) - 1": "another parent|no parent",
    "codes[p, k] = codes[q, l]": "shares a row|no parent",
    "codes[q, l] = ~(8 * len(ids))": "leaf that is out of range",
    "codes[q, l] = ~(8 * len(ids) - 1)": "leaf that is out of range",
    "codes[q, l] = -2**31": "leaf that is out of range",
    "codes[q, l] = ~(8 * (len(ids) - 1))": "shares a row|in no leaf",
    "codes[q, l] ^= 1": "shares a row|in no leaf|out of range",
    "boxes[q, :3, l], boxes[q, 3:6, l], codes[q, l] = inf, -inf, 0": "unused lane|in no leaf",
    "boxes[0, 0, 0] = nan": "box that is none",
    "boxes[0, 3, 0] = inf": "box that is none",
    "boxes[0, 3, 0] = -100": "box that is none",
    "boxes[p, 4, k] = -inf": "box that is none",
    "boxes[q, :3, l], boxes[q, 3:6, l] = inf, -inf": "box that is none",
    "boxes[0, 0, 0] = -1.5": "root's box",
    "orders[0] = 0": "visiting order",
    "orders[p, 0] ^= 1": "visiting order",
    "orders[p, 1] ^= 1 << 15": "visiting order",
    "ids[0, 0] = len(faces)": "an id that is wrong",
    "ids[0, 0] = 2**31 - 1": "an id that is wrong",
    "ids[0, 0] = -2": "an id that is wrong",
    "ids[0, 0] = 3": "an id that is wrong|differs",
    "ids[0, 0] = -1": "differs",
    "ids[0, 0] = ids[1, 0]": "differs",
    "ids[ids == -1] = 0": "differs",
    "groups[0] += 1": "differs",
    "groups[7] = nan": "differs",
    "faces[0, 0] = len(points)": "face 0 has a vertex",
    "faces[-1, 2] = -1": "face 1999 has a vertex",
    "faces[7, 1] = 2**31 - 1": "face 7 has a vertex",
    "faces[7] = 0": "differs|bounds",
    "points[30, 1] = nan": "an id that is wrong|bounds",
    "points[30, 1] = 1e300": "bounds are not those",
    "points[30, 1] += 1e-9": "differs|bounds",
    "points[9:12] = 0.5": "differs|bounds|in no leaf",
    "frame[0, 0] = nan": "frame is not that",
    "frame[0, 1] += 1e-9": "frame is not that",
    "frame[1, 0] = 2**40": "frame is not that",
    "frame[1, 1] = 0": "frame is not that",
    "frame[1, 2] = inf": "frame is not that",
    "frame[2, 0] = nan": "root's box",
    "frame[3, 2] = inf": "root's box",
    "frame[2:] = 0": "root's box",
}


@pytest.mark.parametrize("change", ARRAYS)
def test_arrays(change: str, tmp_path: Path, rng: Rng) -> None:
    """What would lead kernels astray, one entry each, under checksums that are right."""
    parts = Parts(saved("triangles", tmp_path, rng))
    boxes = parts.arrays["blocks"].reshape(-1, 8, WIDTH)
    codes, orders = parts.codes, boxes.view(np.int32)[:, 7]
    used = boxes[:, 0] <= boxes[:, 3]
    p, k = np.argwhere(used & (codes > 0))[-1]
    q, l = np.argwhere(used & (codes < 0))[7]  # noqa: E741
    places = {"boxes": boxes, "codes": codes, "orders": orders, "p": p, "k": k, "q": q, "l": l}
    places["ids"] = parts.ids
    exec(change, vars(np) | parts.arrays | places)
    assert_refused(parts.joined(), rf"is not valid: .*(?:{ARRAYS[change]})", tmp_path)


SOLIDS: dict[str, str] = {
    "ids[0, 0] = -1": "an id that is wrong",
    "ids[0, 0] = ids[1, 0]": "in no leaf",
    "ids[0, 0] = 3": "an id that is wrong",
    "points[7, 0] = nan": "an id that is wrong|bounds|valid matrix",
    "points[7, 3] = -9": "an id that is wrong|bounds",
    "points[7] = 1e308": "bounds|an id|valid matrix",
}


@pytest.mark.parametrize("kind", ["boxes", "obbs"])
@pytest.mark.parametrize("change", SOLIDS)
def test_arrays_of_boxes(change: str, kind: str, tmp_path: Path, rng: Rng) -> None:
    """The same for boxes: no lane of theirs is unused."""
    parts = Parts(saved(kind, tmp_path, rng, 300))
    exec(change, vars(np) | parts.arrays)
    assert_refused(parts.joined(), SOLIDS[change], tmp_path)


@pytest.mark.parametrize(
    "change", ["points[7, 6:] = 0", "points[3, 8] = nan", "points[7, 9] = inf"]
)
def test_matrices(change: str, tmp_path: Path, rng: Rng) -> None:
    """Those of oriented boxes are finite and invertible, as `from_obbs` makes them."""
    parts = Parts(saved("obbs", tmp_path, rng, 300))
    exec(change, vars(np) | parts.arrays)
    assert_refused(parts.joined(), "oriented box [37] has no valid matrix", tmp_path)
    other = parts.joined(width=4 if WIDTH != 4 else 8)
    (tmp_path / "bad.bvh").write_bytes(other)
    with pytest.raises(ValueError, match="valid matrix"):
        bvh.load(tmp_path / "bad.bvh")


def test_primitives_of_another_width(tmp_path: Path, rng: Rng) -> None:
    """They are checked before a tree is built of them."""
    parts = Parts(saved("triangles", tmp_path, rng))
    parts.arrays["faces"][70, 0] = 6_000
    (tmp_path / "bad.bvh").write_bytes(parts.joined(width=4 if WIDTH != 4 else 8))
    with pytest.raises(ValueError, match=r"bad\.bvh: is not valid: face 70"):
        bvh.load(tmp_path / "bad.bvh")


def test_boxes_that_lie_are_for_the_audit(tmp_path: Path, rng: Rng) -> None:
    """A box that is too small makes wrong answers, and no harm; the audit finds it."""
    parts = Parts(saved("triangles", tmp_path, rng))
    boxes = parts.arrays["blocks"].reshape(-1, 8, WIDTH)
    q, l = np.argwhere(parts.codes < 0)[0]  # noqa: E741
    boxes[q, 3:6, l] = boxes[q, :3, l]
    (tmp_path / "lie.bvh").write_bytes(parts.joined())
    for mmap in (False, True):
        tree = bvh.load(tmp_path / "lie.bvh", mmap=mmap)
        tree.closest_hit(rng.normal(size=(500, 3)), rng.normal(size=(500, 3)))
        with pytest.raises(ValueError, match="sticks out"):
            tree.validate()
        with pytest.raises(ValueError, match=r"lie\.bvh: .*sticks out"):
            bvh.load(tmp_path / "lie.bvh", mmap=mmap, audit=True)


def test_memory(tmp_path: Path, rng: Rng) -> None:
    """Loading takes the file's size and little more; mapping, next to nothing."""
    for kind in ("triangles", "boxes", "obbs"):
        path = tmp_path / "large.bvh"
        tree_of(kind, rng, 30_000).save(path)
        size = path.stat().st_size
        # Compiling is not loading.
        bvh.load(path)
        for mmap, most in ((False, 2.0), (True, 1.0)):
            tracemalloc.start()
            try:
                bvh.load(path, mmap=mmap).arrays  # noqa: B018
                assert tracemalloc.get_traced_memory()[1] < most * size
            finally:
                tracemalloc.stop()


def test_the_file_may_be_replaced_while_it_is_read(tmp_path: Path, rng: Rng) -> None:
    """Who saves often and who loads often never meet half a tree."""
    path = tmp_path / "tree.bvh"
    trees = [tree_of("boxes", rng, n) for n in (100, 300)]
    trees[0].save(path)
    done = threading.Event()

    def save() -> None:
        for i in range(100):
            trees[i % 2].save(path)
        done.set()

    thread = threading.Thread(target=save)
    thread.start()
    while not done.is_set():
        assert len(bvh.load(path)) in (100, 300)
        assert len(bvh.load(path, mmap=True)) in (100, 300)
    thread.join()
    assert os.listdir(tmp_path) == ["tree.bvh"]


def test_limits_are_those_of_the_kernels() -> None:
    """A header's counts fit the integers that codes are made of."""
    header = unpacked.__globals__
    assert header["MAX_ID_ROWS"] * MAX_LEAF_ROWS <= 2**31
    assert header["MAX_NODES"] < 2**31 and NODE_SIZE == 8 * WIDTH
    assert [entry.name for entry in entries_of(_blank())][-1] == "points"


def _blank() -> Any:
    return bvh.io.file_formats.TreeHeader(
        "boxes", "medium", WIDTH, 0, 0, 0, 0, 0.0, (0.0,) * 6, (b"",) * 5
    )
