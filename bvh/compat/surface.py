"""The triangles of several geometries under one tree, and what is said of those that are found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.tree import BVH
from bvh.workers import share

INVALID_ID = 0xFFFFFFFF

# Rows that one thread takes at a time: they stay in its cache from one column to the next.
CHUNK = 1 << 13

Geometry = tuple[NDArray[np.float64], NDArray[np.int32]]


class Surface:
    """All triangles of a scene: geometry after geometry, each a pair (vertices, faces).

    The tables of triangles end with a row for -1: what is said of a miss.
    """

    def __init__(self, geometries: list[Geometry], threads: int) -> None:
        counts = [len(faces) for _, faces in geometries]
        firsts = np.cumsum([0, *(len(vertices) for vertices, _ in geometries)])
        points = [np.empty((0, 3)), *(vertices for vertices, _ in geometries)]
        faces: list[NDArray[Any]] = [np.empty((0, 3), np.int32)]
        for (_, rows), first in zip(geometries, firsts[:-1], strict=True):
            faces.append(rows + first if first else rows)
        self.tree = BVH.from_triangles(
            np.concatenate(points), np.concatenate(faces), threads=threads
        )
        self._places: tuple[NDArray[np.uint32], NDArray[np.uint32]] | None = None
        if len(geometries) > 1:
            places = [np.arange(count, dtype=np.uint32) for count in counts]
            owner = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
            invalid = np.array([INVALID_ID], np.uint32)
            self._places = np.append(owner, invalid), np.concatenate([*places, invalid])
        self._normals: dict[Any, NDArray[Any]] = {}

    def described(
        self, found: Any, dtype: np.dtype[Any], threads: int, *, normals: bool = True
    ) -> dict[str, NDArray[Any]]:
        """Return the ids, weights and unit normals of hits or nearest points, flat.

        What is missed has `INVALID_ID`, and zeros.
        """
        prim = np.reshape(found.prim_id, -1)
        weights = np.reshape(found.u, -1), np.reshape(found.v, -1)
        n = len(prim)
        geometry, place = np.empty(n, np.uint32), np.empty(n, np.uint32)
        uvs = np.empty((n, 2), dtype)
        answers = {"geometry_ids": geometry, "primitive_ids": place, "primitive_uvs": uvs}
        table = None
        if normals:
            table = self._unit_normals(dtype, threads)
            answers["primitive_normals"] = np.empty((n, 3), dtype)

        def work(begin: int, end: int) -> None:
            some = slice(begin, end)
            # Wrapping leads -1 to the last row, without a check of each.
            rows = prim[some].astype(np.intp)
            if self._places is None:
                # One geometry: 0, and -1, whose bits are those of INVALID_ID.
                np.right_shift(prim[some], 31, out=geometry[some].view(np.int32))
                place[some] = prim[some].view(np.uint32)
            else:
                self._places[0].take(rows, out=geometry[some], mode="wrap")
                self._places[1].take(rows, out=place[some], mode="wrap")
            for axis, weight in enumerate(weights):
                # Of a NaN and a number, fmax takes the number.
                np.fmax(weight[some], 0.0, out=uvs[some, axis], casting="same_kind")
            if table is not None:
                table.take(rows, axis=0, out=answers["primitive_normals"][some], mode="wrap")

        share(n, CHUNK, work, threads)
        return answers

    def _unit_normals(self, dtype: np.dtype[Any], threads: int) -> NDArray[Any]:
        """Return the unit normal of each triangle by its winding, and zeros for a miss."""
        table = self._normals.get(dtype)
        if table is None:
            table = np.zeros((len(self.tree) + 1, 3), dtype)
            vertices, faces = self.tree.vertices, self.tree.faces

            def work(begin: int, end: int) -> None:
                corners = vertices[faces[begin:end]]
                table[begin:end] = _normals(corners[:, 1:] - corners[:, :1])

            # Two threads may both fill one: with the same.
            share(len(self.tree), CHUNK, work, threads)
            self._normals[dtype] = table
        return table


def _normals(edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit normals by two edges of each triangle; NaN where it has no area."""
    with np.errstate(all="ignore"):
        # Lengths are made alike, so that no product of them leaves the range of doubles.
        edges = edges / np.abs(edges).max(axis=2, keepdims=True)
        normals = np.cross(edges[:, 0], edges[:, 1])
        return np.asarray(normals / np.sqrt((normals**2).sum(axis=1, keepdims=True)))


def split_rays(rays: NDArray[Any], threads: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the origins and directions of rays (..., 6) as arrays of their own."""
    flat = rays.reshape(-1, 6)
    parts = np.empty((2, len(flat), 3))

    def work(begin: int, end: int) -> None:
        # Column by column: rows of three cost more to begin than to copy.
        for column in range(6):
            parts[column // 3, begin:end, column % 3] = flat[begin:end, column]

    share(len(flat), CHUNK, work, threads)
    # A single ray is a batch of one.
    shape = (*(rays.shape[:-1] or (1,)), 3)
    return parts[0].reshape(shape), parts[1].reshape(shape)
