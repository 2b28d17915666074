"""Saved files of older versions: read or refused; the bytes of files that are written."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import UPS
from bvh.runtime.simd import WIDTH
from tests.cases.frozen_files import saved_scene, saved_tree
from tests.cases.saved_scenes import matrices, told
from tests.cases.saved_trees import KINDS, bytes_of, tree_of

pytestmark = pytest.mark.unaudited
Rng = np.random.Generator


@pytest.mark.parametrize("kind", KINDS)
def test_trees(kind: str, tmp_path: Path, rng: Rng) -> None:
    """Those of 0.2.0 are read, and written byte for byte; those of triangles are refused."""
    tree, path = tree_of(kind, rng), tmp_path / "old.bvh"
    path.write_bytes(saved_tree(tree, WIDTH))
    if kind == "triangles":
        with pytest.raises(ValueError, match=r"old.bvh: has format version 3, .* build the tree"):
            bvh.load(path)
        return
    rays = rng.random((100, 3)) - [0.0, 0.0, 3.0], [0.0, 0.0, 1.0]
    wanted = tree.closest_hit(*rays)
    for mmap in (False, True):
        loaded = bvh.load(path, mmap=mmap, audit=True)
        assert isinstance(loaded, BVH)
        hits = loaded.closest_hit(*rays)
        assert hits.t.tobytes() == wanted.t.tobytes()
        assert np.array_equal(hits.prim_id, wanted.prim_id)
    tree.save(tmp_path / "new.bvh")
    assert (tmp_path / "new.bvh").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("up", ["z", "-y"])
def test_scenes(up: str, tmp_path: Path, rng: Rng) -> None:
    """Nested scenes with names, masks, attributes and gaps; older versions are refused."""
    trees, maps = [tree_of("triangles", rng, 9), tree_of("boxes", rng, 9)], matrices(rng, 5)
    normals = rng.normal(size=(27, 3))
    inner, scene = Scene(), Scene()
    inner.add(trees[0], maps[0], "é")
    inner.add(trees[1], maps[1], mask=6)
    scene.add(trees[0], maps[2])
    scene.remove(scene.add(trees[0]))
    scene.add(inner, maps[3], "", visible=False)
    scene.add(trees[1], maps[4], "box")
    for part in (inner, scene):
        part._attributes[id(trees[0])] = trees[0], bvh.Attributes(normals)
    scene.up = up
    files = [bytes_of(tree) for tree in trees]
    tables = {
        "scenes": [(2, 2, 0), (3, 4, UPS.index(up))],
        "ids": [0, 1, 0, 2, 3],
        "children": [0, 1, 0, ~0, 1],
        "maps": maps[:, :3].reshape(5, 12),
        "masks": [2**32 - 1, 6, *[2**32 - 1] * 3],
        "visible": [1, 1, 1, 0, 1],
        "named": [1, 0, 0, 1, 1],
        "lengths": [2, 0, 0, 0, 3],
        "text": list("ébox".encode() + bytes(4)),
        "trees": [(len(files[0]), 1, 0, 0, 0), (len(files[1]), 0, 0, 0, 0)],
        "normals": normals,
        "uv": np.empty((0, 2)),
    }
    path = tmp_path / "old.bvh"
    path.write_bytes(saved_scene(tables, files))
    for mmap in (False, True):
        loaded = bvh.load(path, mmap=mmap, audit=True)
        assert isinstance(loaded, Scene) and told(loaded) == told(scene)
    scene.save(tmp_path / "new.bvh")
    assert told(bvh.load(tmp_path / "new.bvh")) == told(scene)
    assert (tmp_path / "new.bvh").read_bytes() == path.read_bytes()
    fields = bytearray(path.read_bytes()[: HEADER_SIZE - DIGEST_SIZE])
    for version in (1, 2, 3):
        fields[8] = version
        checksum = blake2b(fields, digest_size=DIGEST_SIZE).digest()
        path.write_bytes(bytes(fields) + checksum + path.read_bytes()[HEADER_SIZE:])
        with pytest.raises(ValueError, match=rf"format version {version}, .* build the scene"):
            bvh.load(path)
