"""A stand-in for scenes: leaves, and their rays answered by one flattened mesh."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import bvh
from bvh.affine import moved
from bvh.picking import Picking
from bvh.projected import placed, surface_of


class FlatLeaves:
    """Leaves as `Scene.leaves` has them."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows
        self.trees = [row[0] for row in rows]
        self.tree_of = np.arange(len(rows), dtype=np.int32)
        self.matrices = np.array([row[1] for row in rows]).reshape(-1, 3, 4)
        self.masks = np.array([row[2] for row in rows], np.uint32)
        self.instance_id = np.array([row[3] for row in rows], np.int32)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Any:
        tree, matrix, mask, instance_id = self._rows[row]
        transform = np.vstack([matrix, [0, 0, 0, 1]])
        path = (int(instance_id), int(row))
        return SimpleNamespace(
            tree=tree, transform=transform, mask=mask, path=path, name=f"part {row}"
        )


class FlatScene(Picking):
    """A scene of trees over triangles, under maps (3, 4), of instances in ascending order."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.leaves = FlatLeaves(rows)
        self.known: dict[int, Any] = {}
        surfaces = [placed(surface_of(tree), matrix) for tree, matrix, *_ in rows]
        starts = np.cumsum([0, *(len(s.points) for s in surfaces)])
        self.points = np.concatenate([s.points for s in surfaces])
        self.faces = np.concatenate(
            [s.faces + n for s, n in zip(surfaces, starts, strict=False)]
        ).astype(np.int32)
        self.leaf = np.repeat(np.arange(len(rows)), [len(s.faces) for s in surfaces])
        self.prim = np.concatenate([s.owners for s in surfaces])
        self.trees: dict[int, bvh.BVH] = {}
        self.rows: dict[int, Any] = {}

    def _tree(self, mask: int) -> tuple[bvh.BVH, Any]:
        if mask not in self.trees:
            self.rows[mask] = np.flatnonzero(self.leaves.masks[self.leaf] & np.uint32(mask))
            self.trees[mask] = bvh.BVH.from_triangles(self.points, self.faces[self.rows[mask]])
        return self.trees[mask], self.rows[mask]

    def _owners(self, prim: Any, rows: Any) -> dict[str, Any]:
        some, hit = rows[np.maximum(prim, 0)] if len(rows) else 0, np.asarray(prim) >= 0
        leaf = np.where(hit, self.leaf[some], -1)
        owners = np.where(hit, self.leaves.instance_id[leaf], -1)
        return {"leaf": leaf, "instance_id": owners, "prim_id": np.where(hit, self.prim[some], -1)}

    def closest_hit(
        self, o: Any, d: Any, t_min: Any = 0.0, t_max: Any = np.inf, *,
        mask: int = 0xFFFFFFFF, threads: int | None = None,
    ) -> Any:  # fmt: skip
        tree, rows = self._tree(mask)
        hits = tree.closest_hit(o, d, t_min, t_max, threads=threads)
        rest = {name: getattr(hits, name) for name in ("t", "u", "v", "front")}
        return SimpleNamespace(**rest, **self._owners(hits.prim_id, rows))

    def all_hits(
        self, o: Any, d: Any, t_min: Any = 0.0, t_max: Any = np.inf, *, mask: int = 0xFFFFFFFF
    ) -> Any:
        tree, rows = self._tree(mask)
        hits = tree.all_hits(o, d, t_min, t_max)
        rest = {name: getattr(hits, name) for name in ("t", "u", "v", "front", "offsets")}
        return SimpleNamespace(**rest, **self._owners(hits.prim_id, rows))

    def caster(self, *, mask: int = 0xFFFFFFFF) -> Any:
        tree, rows = self._tree(mask)
        cast = tree.caster()

        def scene_cast(*ray: float) -> tuple[Any, ...]:
            t, prim, u, v, front = cast(*ray)
            found = {k: int(x) for k, x in self._owners(prim, rows).items()}
            return t, found["leaf"], found["prim_id"], u, v, front

        return scene_cast

    def attributes(self, tree: Any) -> Any:
        return self.known.get(id(tree), SimpleNamespace(vertex_normals=None, uv=None))


def world_triangles(scene: FlatScene) -> Any:
    """Return the placed corners of all faces, (n, 3, 3)."""
    return scene.points[scene.faces]


def moved_by(tree: Any, matrix: Any) -> Any:
    return moved(tree.vertices, matrix)
