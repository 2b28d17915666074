"""Saved scenes to spoil, and files signed anew after a change."""

from __future__ import annotations

from typing import Any

import numpy as np

import bvh
from bvh import Attributes, Scene
from bvh.io.container import HEADER_SIZE, digest_of, padded
from bvh.io.file_formats import SceneHeader, packed_scene, tables_end, tables_of, unpacked_scene
from bvh.runtime.arguments import ALL_BITS
from tests.cases.saved_trees import tree_of

Rng = np.random.Generator


def matrices(rng: Rng, n: int) -> np.ndarray:
    """Return affine matrices."""
    found = np.tile(np.eye(4), (n, 1, 1))
    found[:, :3] = rng.normal(size=(n, 3, 4))
    return found


def scene_of(rng: Rng, n: int = 4) -> Scene:
    """Return a scene with all that a file can hold: nesting, names, gaps, trees of all kinds."""
    trees = [tree_of(kind, rng, 12) for kind in ("triangles", "triangles", "boxes", "obbs")]
    inner, middle, scene = Scene(), Scene(), Scene()
    inner.add_many(trees[0], matrices(rng, n), ["é", None, "", "\ud800"][:n] + [None] * (n - 4))
    inner.add(trees[2], matrices(rng, 1)[0], "box", 6)
    inner.remove(1)
    middle.add(inner, matrices(rng, 1)[0], visible=False)
    middle.add(trees[1])
    scene.add_many(inner, matrices(rng, 2), masks=[1, ALL_BITS])
    for child in (trees[3], middle, trees[0], Scene()):
        scene.add(child, matrices(rng, 1)[0], "it")
    scene.remove(scene.add(trees[0]))
    count = len(trees[0].vertices)
    known = Attributes(rng.normal(size=(count, 3)), rng.random((count, 2)))
    inner.up, scene.up = "-x", "y"
    for part in (inner, scene):
        part._attributes[id(trees[0])] = trees[0], known
    middle._attributes[id(trees[1])] = trees[1], Attributes(None, rng.random((count, 2)))
    return scene


def told(scene: Scene) -> list[Any]:
    """Return all that can be told of a scene, whatever its trees are."""
    found: list[Any] = [(scene._instances.next_id, scene.up)]
    for one in scene:
        child = told(one.child) if isinstance(one.child, Scene) else tree_told(scene, one.child)
        found.append((one.id, one.transform.tolist(), one.name, one.mask, one.visible, child))
    return found


def tree_told(scene: Scene, tree: bvh.BVH) -> list[Any]:
    """Return what can be told of a tree."""
    points = tree.arrays.primitives.points
    known = scene.attributes(tree)
    return [tree.kind, points.tobytes(), *(x if x is None else x.tolist() for x in known)]


class SceneParts:
    """A saved scene taken apart: its header, its tables, the files of its trees."""

    def __init__(self, data: bytes) -> None:
        self.header = unpacked_scene(data[:HEADER_SIZE], len(data))
        self.tables: dict[str, np.ndarray[Any, Any]] = {}
        for entry in tables_of(self.header):
            array = np.frombuffer(
                bytearray(data[entry.offset : entry.offset + entry.size]), entry.dtype
            )
            self.tables[entry.name] = array.reshape(-1, entry.columns) if entry.columns else array
        self.trees: list[bytes] = []
        end = tables_end(self.header)
        for size in self.tables["trees"][:, 0].tolist():
            self.trees.append(data[end : end + size])
            end += size

    def joined(self, **changes: Any) -> bytes:
        """Return a file of the tables, cut or padded to fit the counts, with right checksums."""
        header: SceneHeader = self.header._replace(**changes)
        parts, digests = [], []
        for entry in tables_of(header):
            part = self.tables[entry.name].tobytes()[: entry.size].ljust(entry.size, b"\0")
            digests.append(digest_of(np.frombuffer(part, np.uint8), 1))
            parts.append(part.ljust(padded(entry.size), b"\0"))
        if "size" not in changes:
            size = tables_end(header) + sum(len(tree) for tree in self.trees)
            header = header._replace(size=size)
        start = packed_scene(header._replace(digests=tuple(digests)))
        return b"".join([start, *parts, *self.trees])
