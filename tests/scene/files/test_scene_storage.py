"""Saved scenes: the same again, mapped or read; and files that are damaged, or made to do harm."""

from __future__ import annotations

import os
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import Scene
from bvh.io.file_formats import SCENE_MAGIC, TABLES
from bvh.scene.leaves import MAX_DEPTH, MAX_LEAVES
from tests.cases.saved_scenes import SceneParts, matrices, scene_of, told
from tests.cases.saved_trees import signed_header, tree_of
from tests.scene.files.test_storage_fuzz import field, spoil_files

pytestmark = pytest.mark.unaudited
Rng = np.random.Generator
ALL = int(os.environ.get("BVH_FUZZ_FILES", "10000"))
# What Python's objects for scenes, trees and names take beside tables.
OVERHEAD = 1 << 18


@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_scene_is_the_same(mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """Nesting, sharing, ids, names, masks, attributes; saved again, it is the same file."""
    for scene in (scene_of(rng), Scene(), scene_of(rng, 5)):
        path = tmp_path / "scene.bvh"
        scene.save(path)
        for options in ({}, {"verify": False}, {"audit": True}, {"threads": 1}):
            other = bvh.load(path, mmap=mmap, **options)
            assert isinstance(other, Scene) and told(other) == told(scene)
            assert repr(other) == repr(scene)
            assert len(other.leaves.trees) == len(scene.leaves.trees)
            for k, leaf in enumerate(scene.leaves):
                assert (other.leaves[k].path, other.leaves[k].name) == (leaf.path, leaf.name)
        before = path.read_bytes()
        assert before.startswith(SCENE_MAGIC) and SceneParts(before).joined() == before
        other.save(path)
        assert path.read_bytes() == before
        new = other.add(tree_of("boxes", rng, 3))
        assert new == scene._instances.next_id
        other.save(path, threads=1)
        assert len(bvh.load(path, mmap=mmap)) == len(scene) + 1


def test_mapped_trees_are_checked_at_their_first_use(tmp_path: Path, rng: Rng) -> None:
    """One that is damaged does not keep the others from answering."""
    scene, path = Scene(), tmp_path / "scene.bvh"
    scene.add(tree_of("triangles", rng))
    scene.add(tree_of("triangles", rng))
    scene.save(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"scene\.bvh: is damaged: the checksum of its array"):
        bvh.load(path)
    other = bvh.load(path, mmap=True)
    assert len(other[0].child) == 200
    with pytest.raises(ValueError, match=r"^[^:]*scene\.bvh: is damaged"):
        other[1].child.arrays  # noqa: B018


@pytest.mark.parametrize("mmap", [False, True])
def test_a_loaded_scene_answers_bit_for_bit(mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """Rays of several masks, at every kind of tree."""
    scene, path = scene_of(rng), tmp_path / "scene.bvh"
    rays = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
    scene.save(path)
    other = bvh.load(path, mmap=mmap)
    for mask in (1, 6, 2**32 - 1):
        wanted, got = (one.closest_hit(*rays, mask=mask) for one in (scene, other))
        assert np.isfinite(wanted.t).any()
        for name in ("t", "u", "v", "prim_id", "instance_id", "leaf", "front"):
            assert getattr(got, name).tobytes() == getattr(wanted, name).tobytes()


def put(table: str, at: Any, value: Any) -> Callable[[SceneParts], None]:
    """Return what writes a value into a table."""

    def spoil(parts: SceneParts) -> None:
        parts.tables[table][at] = value

    return spoil


# The outermost scene comes last; ids, children and the like are those of the first one first.
HOSTILE: dict[str, tuple[Callable[[SceneParts], Any], str]] = {
    "holds itself": (put("children", -1, ~3), "does not come before it"),
    "holds what holds it": (put("children", 0, ~2), "does not come before it"),
    "no such scene": (put("children", -1, -(2**31)), "does not come before it"),
    "no such tree": (put("children", 0, 4), "tree that there is not"),
    "far tree": (put("children", 0, 2**31 - 1), "tree that there is not"),
    "unused tree": (put("children", slice(None), 0), "not used"),
    "twice an id": (put("ids", 1, 0), "order of their ids"),
    "negative id": (put("ids", 0, -1), "not given"),
    "next id": (put("scenes", (-1, 1), 2), "not given"),
    "ids without end": (put("scenes", (0, 1), 2**62), "more ids"),
    "no such axis": (put("scenes", (0, 2), 6), "no axis for up"),
    "negative axis": (put("scenes", (2, 2), -1), "less than nothing"),
    "counts": (put("scenes", (0, 0), 0), "share all instances"),
    "negative counts": (put("scenes", (0, 0), -1), "less than nothing"),
    "huge counts": (put("scenes", (slice(None), 0), 2**62), "more instances"),
    "not a number": (put("maps", (0, 0), np.nan), "behind instance 0, transforms"),
    "infinite": (put("maps", (2, 3), np.inf), "must be finite"),
    "singular": (put("maps", (1, slice(0, 4)), 0.0), "must be invertible"),
    "half visible": (put("visible", 0, 2), "visible is neither"),
    "half named": (put("named", 0, 255), "named is neither"),
    "negative name": (put("lengths", 0, -1), "shorter than nothing"),
    "long name": (put("lengths", 0, 2**31 - 1), "share all letters"),
    "unnamed letters": (put("named", 0, 0), "without a name has letters"),
    "no text": (put("text", 0, 255), "is not text"),
    "size of a tree": (put("trees", (0, 0), 64), "cannot be its size"),
    "large tree": (put("trees", (0, 0), 2**62), "cannot be its size"),
    "small trees": (put("trees", (0, 0), 1024), "not its size"),
    "shifted trees": (
        lambda parts: parts.tables["trees"].__setitem__(
            slice(0, 2), parts.tables["trees"][:2] + [[64, 0, 0, 0, 0], [-64, 0, 0, 0, 0]]
        ),
        "header says|not a saved tree",
    ),
    "normals of boxes": (put("trees", (slice(None), 1), 1), "without vertices has normals"),
    "no normals": (put("trees", (slice(None), 1), 0), "normals do not fit"),
    "third of an attribute": (put("trees", (0, 2), 3), "half an attribute"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables(name: str, tmp_path: Path, rng: Rng) -> None:
    """Checksums are right, and what is said cannot be."""
    path = tmp_path / "bad.bvh"
    scene_of(rng).save(path)
    parts = SceneParts(path.read_bytes())
    assert parts.header.scenes == 4 and parts.header.trees == 4
    spoil, match = HOSTILE[name]
    spoil(parts)
    path.unlink()
    path.write_bytes(parts.joined())
    for mmap in (False, True):
        with pytest.raises(ValueError, match=rf"bad\.bvh: .*(?:{match})"):
            bvh.load(path, mmap=mmap)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"scenes": 0}, "contradicts itself"),
        ({"trees": 2**63}, "more than the file"),
        ({"instances": 2**40}, "more than the file"),
        ({"normals": 2**64 - 1}, "more than the file"),
        ({"text": 5000}, "behind its materials|contradicts itself"),
        ({"size": 0}, "its header says 0"),
        ({"size": 2**63}, "more than the file"),
    ],
)
def test_hostile_headers(change: Any, match: str, tmp_path: Path, rng: Rng) -> None:
    """Counts are refused before memory is taken for them."""
    path = tmp_path / "scene.bvh"
    scene_of(rng).save(path)
    data = bytearray(path.read_bytes())
    header = SceneParts(bytes(data)).header
    names = ["scenes", "trees", "instances", "text", "normals", "uv", "size"]
    for name, value in change.items():
        at = 24 + 8 * names.index(name)
        assert int.from_bytes(data[at : at + 8], "little") == getattr(header, name)
        data[at : at + 8] = value.to_bytes(8, "little")
    path.write_bytes(signed_header(data))
    tracemalloc.start()
    with pytest.raises(
        ValueError, match=r"scene\.bvh: .*(?:contradicts|more than|its header says)"
    ):
        bvh.load(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    if change.keys() <= {"scenes", "text", "size"} and all(v < 10_000 for v in change.values()):
        path.write_bytes(SceneParts(scene_bytes(tmp_path, rng)).joined(**change))
        with pytest.raises(ValueError, match=rf"scene\.bvh: .*(?:{match})"):
            bvh.load(path)


def scene_bytes(tmp_path: Path, rng: Rng) -> bytes:
    """Return the file of a scene."""
    scene_of(rng).save(tmp_path / "good.bvh")
    return (tmp_path / "good.bvh").read_bytes()


def test_a_tree_without_instances_is_not_saved(tmp_path: Path, rng: Rng) -> None:
    scene = Scene()
    scene.add(tree_of("boxes", rng, 2))
    scene.add_many(tree_of("boxes", rng, 2), np.empty((0, 4, 4)))
    scene.save(tmp_path / "scene.bvh")
    assert repr(bvh.load(tmp_path / "scene.bvh")) == "Scene(1 instance, 1 leaf, 1 tree)"


def test_bombs(tmp_path: Path, rng: Rng) -> None:
    """A small file of many leaves, or of deep nesting, is refused by what it would unfold to."""
    path = tmp_path / "bomb.bvh"
    for count, match in ((2, f"{MAX_LEAVES} leaves"), (1, f"nested {MAX_DEPTH} deep")):
        depth = 100 if count == 1 else 60
        scene = Scene()
        scene.add(tree_of("boxes", rng, 2))
        for _ in range(depth):
            outer = Scene()
            # Past the check of what is added.
            place = outer._instances.child_index(scene)
            outer._instances.extend(place, matrices(rng, count)[:, :3], [None] * count)
            scene = outer
        scene.save(path)
        for mmap in (False, True):
            with pytest.raises(ValueError, match=match):
                bvh.load(path, mmap=mmap)


def test_every_byte_counts(tmp_path: Path, rng: Rng) -> None:
    """A bit flipped anywhere, or a byte more or less, is found."""
    data, path = scene_bytes(tmp_path, rng), tmp_path / "bad.bvh"
    places = {*range(0, len(data), 61), *range(1024)}
    for at in sorted(places):
        spoiled = bytearray(data)
        spoiled[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=r"bad\.bvh: "):
            bvh.load(path, threads=1)
    for spoiled in (data[:-1], data + b"\0", data[: len(data) // 2], data[:1023], data[:8], b""):
        path.write_bytes(spoiled)
        with pytest.raises(ValueError, match=r"bad\.bvh: .*(cut off|too long|not a saved|more)"):
            bvh.load(path)


def entries(rng: Rng, data: bytearray) -> bytearray:
    """Change entries of tables, and sign them."""
    parts = SceneParts(bytes(data))
    for _ in range(rng.integers(1, 4)):
        array = parts.tables[str(rng.choice(list(parts.tables)))]
        if array.size:
            at = np.unravel_index(rng.integers(array.size), array.shape)
            other = array[np.unravel_index(rng.integers(array.size), array.shape)]
            value: Any = other
            if array.dtype.kind == "f":
                value = other if rng.random() < 0.7 else rng.choice([0.0, 1e300, 5e-324])
            elif rng.random() < 0.6:
                info = np.iinfo(array.dtype)
                steps = [int(array[at]) + d for d in (-1, 1, 64, -64)]
                values = [0, 1, int(info.min), int(info.max), *steps]
                value = values[rng.integers(len(values))]
                value = min(max(value, int(info.min)), int(info.max))
            array[at] = value
    return bytearray(parts.joined())


def counts(rng: Rng, data: bytearray) -> bytearray:
    """Change counts, fit the tables to them, and sign all."""
    parts = SceneParts(bytes(data))
    changes = {}
    for name in ("scenes", "trees", "instances", "text", "normals", "uv"):
        if rng.random() < 0.4:
            old = getattr(parts.header, name)
            changes[name] = max(int(rng.choice([0, 1, old - 1, old + 1, old * 2])), 0)
    return bytearray(parts.joined(**changes))


def swap(rng: Rng, data: bytearray) -> bytearray:
    """Exchange rows of a table, or trees, and sign them."""
    parts = SceneParts(bytes(data))
    if rng.random() < 0.3:
        i, j = rng.integers(0, len(parts.trees), 2)
        parts.trees[i], parts.trees[j] = parts.trees[j], parts.trees[i]
        if rng.random() < 0.7:
            parts.tables["trees"][[i, j]] = parts.tables["trees"][[j, i]]
    else:
        array = parts.tables[str(rng.choice([n for n, a in parts.tables.items() if len(a)]))]
        i, j = rng.integers(0, len(array), 2)
        array[[i, j]] = array[[j, i]]
    return bytearray(parts.joined())


SIGNED: tuple[Callable[[Rng, bytearray], bytearray], ...] = (field, entries, entries, counts, swap)


def try_file(path: Path, mmap: bool) -> str:
    """Load a spoiled file and ask it all there is to ask; return what became of it."""
    size = path.stat().st_size
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        scene = bvh.load(path, mmap=mmap, threads=1)
        taken = tracemalloc.get_traced_memory()[1] - before
        assert taken < 4 * size + OVERHEAD, (taken, size)
        [tree.arrays for tree in scene.leaves.trees]
    except ValueError as error:
        assert str(path) in str(error) or "product of" in str(error)
        return "refused"
    except bvh.BVHWarning:
        return "other width"
    assert len(told(scene)) == len(scene) + 1 and len(repr(scene))
    for k, leaf in enumerate(scene.leaves):
        assert scene.path(k) == leaf.path and np.isfinite(leaf.transform).all()
    scene.save(path.with_name("again.bvh"))
    assert told(bvh.load(path.with_name("again.bvh"))) == told(scene)
    return "sound"


def run(total: int, mmap: bool, tmp_path: Path, rng: Rng) -> Counter[str]:
    """Spoil and try files of scenes; return how often each thing became of them."""
    files = [scene_bytes(tmp_path, rng) for _ in range(3)]
    # Compiling is not loading.
    assert try_file(tmp_path / "good.bvh", mmap) == "sound"
    tried = partial(try_file, mmap=mmap)

    def picked() -> tuple[bytes, Callable[[Path], str]]:
        return files[rng.integers(len(files))], tried

    return spoil_files(total, picked, SIGNED, 0.3, tmp_path / "bad.bvh", rng)


@pytest.mark.filterwarnings("error::bvh.BVHWarning")
@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("share", [30, pytest.param(200, marks=pytest.mark.long)])
def test_spoiled_files(share: int, mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """A share of what the slow test tries."""
    results = run(share, mmap, tmp_path, rng)
    assert sum(results.values()) == share
    assert {name.split(": ")[1] for name in results} >= {"refused", "sound"}


@pytest.mark.slow
@pytest.mark.filterwarnings("error::bvh.BVHWarning")
@pytest.mark.parametrize("mmap", [False, True])
def test_many_spoiled_files(mmap: bool, tmp_path: Path, rng: Rng) -> None:
    """Ten thousand, read and mapped."""
    results = run(ALL, mmap, tmp_path, rng)
    for name, count in sorted(results.items()):
        print(f"{count:6d} {name}")
    assert sum(results.values()) == ALL


def test_the_header_has_room() -> None:
    """All tables fit the header, before its checksum."""
    assert 80 + 72 * TABLES <= 1024 - 16
