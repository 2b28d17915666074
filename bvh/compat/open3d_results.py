"""Arguments and results as in Open3D: arrays or Tensors, ids and normals of its geometries."""

from functools import partialmethod
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from trimesh.util import append_faces

from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import AllHits, ClosestPoints, Hits
from bvh.runtime.arguments import one_index, reals, thread_count
from bvh.runtime.threads import share

INVALID_ID = 0xFFFFFFFF

Columns = dict[str, NDArray[Any]]
Reals = NDArray[np.floating]
Geometry = tuple[NDArray[np.float64], NDArray[np.int32]]

REAL_TYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Rows that a thread processes at a time, to fit its cache.
CHUNK = 1 << 13


class NumpyTensor(np.ndarray[Any, Any]):
    """A numpy array with some methods of Open3D's Tensor.

    Code for Tensors, such as ``ans["t_hit"].numpy()``, also runs on these arrays. Functions of
    Open3D 0.18 that take plain arrays in place of Tensors need ``.numpy()``, too.
    """

    def numpy(self) -> NDArray[Any]:
        """Return a view as a plain array."""
        return self.view(np.ndarray)

    def cpu(self) -> Self:
        """Return the array itself, which is on the CPU."""
        return self

    isfinite, isinf, isnan = map(partialmethod, (np.isfinite, np.isinf, np.isnan))


# Arrays, or Tensors of Open3D, which this package never imports.
Given = ArrayLike | Any
Answer = NumpyTensor | Any


class InputRows:
    """Rays or points, the argument `name`, as rows of `width` numbers, float32 or else float64.

    `flat` (n, width) are the checked rows of `value`, `shape` its leading shape, and `threads` the
    number of threads to use. Results get this shape, and are Tensors if `value` is one.
    """

    def __init__(self, name: str, value: Given, width: int, nthreads: int) -> None:
        self._like = value
        array = plain(value)
        masked = isinstance(array, np.ma.MaskedArray)
        if not isinstance(array, np.ndarray) or array.dtype not in REAL_TYPES or masked:
            array = reals(name, array)
        rows = array.view(np.ndarray)
        if rows.shape == (0,):  # an empty list
            rows = rows.reshape(0, width)
        if rows.shape[-1:] != (width,):
            raise ValueError(f"{name} must have shape (..., {width}), got {rows.shape}")
        self.shape, self.dtype = rows.shape[:-1], rows.dtype
        self.flat: NDArray[Any] = rows.reshape(-1, width)
        self.threads = thread_limit(nthreads)

    def origins_and_directions(self) -> NDArray[np.float64]:
        """Return the rays as origins and directions (2, ..., 3); a single ray is a batch of one."""
        parts = np.empty((2, len(self.flat), 3))

        def split(begin: int, end: int) -> None:
            """Copy rays begin..end - 1 by columns, which is faster than by rows of three."""
            for column in range(6):
                parts[column // 3, begin:end, column % 3] = self.flat[begin:end, column]

        share(len(self.flat), CHUNK, split, self.threads)
        return parts.reshape(2, *(self.shape or (1,)), 3)

    def shaped(self, array: NDArray[Any]) -> Answer:
        """Return results (n, ...), one for each row, in the leading shape of the input."""
        return self.give(array.reshape(self.shape + array.shape[1:]))

    def reals(self, array: ArrayLike) -> Answer:
        """Return n real numbers, one for each row, in the leading shape and type of the input."""
        return self.shaped(narrowed(np.asarray(array).reshape(-1), self.dtype))

    def give(self, array: NDArray[Any]) -> Answer:
        """Return an array as a Tensor if the input was one, else as a `NumpyTensor`."""
        return given_like(array, self._like)


def thread_limit(nthreads: int) -> int:
    """Return the number of threads to use; 0 and negative ones, as in Open3D, mean all CPUs."""
    number = one_index("nthreads", nthreads)
    return thread_count(number if number > 0 else None)


def is_tensor(value: object) -> bool:
    """Return whether a value is a Tensor of Open3D."""
    kind = type(value)
    return kind.__name__ == "Tensor" and kind.__module__.partition(".")[0] == "open3d"


def plain(value: Any) -> ArrayLike:
    """Return a Tensor as a numpy array, and any other value unchanged."""
    return cast(ArrayLike, value.cpu().numpy() if is_tensor(value) else value)


def given_like(array: NDArray[Any], *values: Any) -> Answer:
    """Return an array as a Tensor on the device of the first Tensor in `values`, if any is one.

    Otherwise it is returned as a `NumpyTensor`.
    """
    for value in values:
        if is_tensor(value):
            return type(value).from_numpy(array).to(value.device)
    return array.view(NumpyTensor)


def narrowed(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return a copy of an array with type `dtype`; numbers that overflow become infinite."""
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype)


class CastSurface:
    """The tree over all geometries, and tables of its triangles, with a last row for misses."""

    def __init__(self, geometries: list[Geometry], threads: int) -> None:
        """Build the tree of geometries, (vertices, faces) each."""
        counts = [len(part) for _, part in geometries]
        columns = ([geometry[k] for geometry in geometries] for k in (0, 1))
        # The tree shares the arrays of a single geometry.
        points, faces = geometries[0] if len(counts) == 1 else append_faces(*columns)
        # Open3D does not warn of open meshes.
        self.tree = BVH.from_triangles(points.reshape(-1, 3), faces, threads=threads, warn=False)
        # The geometry of each triangle, and its number in that; None for a single geometry.
        self._ids: list[NDArray[np.uint32]] | None = None
        if len(counts) > 1:
            owners = np.repeat(np.arange(len(counts)), counts)
            numbers = np.concatenate([np.arange(count) for count in counts])
            self._ids = [np.append(ids, INVALID_ID).astype(np.uint32) for ids in (owners, numbers)]
        self._normals: dict[np.dtype[Any], Reals] = {}

    def given_details(self, result: Hits | ClosestPoints, given: InputRows) -> dict[str, Answer]:
        """Return the `details` of hits or closest points in the shape of the input."""
        return {name: given.shaped(array) for name, array in self.details(result, given).items()}

    def details(
        self, result: Hits | AllHits | ClosestPoints, given: InputRows, *, normals: bool = True
    ) -> Columns:
        """Return ids, weights u and v and, if `normals`, unit normals of hits or closest points.

        The arrays have Open3D's names, and a row for each hit; misses have `INVALID_ID` and zeros.
        Real numbers are of the type of the input `given`.
        """
        prim, *weights = (np.reshape(column, -1) for column in (result.prim_id, result.u, result.v))
        n, table = len(prim), None
        answers: Columns = {
            "geometry_ids": np.empty(n, np.uint32), "primitive_ids": np.empty(n, np.uint32),
            "primitive_uvs": np.empty((n, 2), given.dtype),
        }  # fmt: skip
        geometry, primitive, uvs = answers.values()
        if normals:
            table = self._unit_normals(given.dtype, given.threads)
            answers["primitive_normals"] = np.empty((n, 3), given.dtype)

        def fill(begin: int, end: int) -> None:
            part = slice(begin, end)
            # A miss, -1, takes the last row of tables, by mode="wrap".
            rows = prim[part].astype(np.intp)
            if self._ids is None:
                # All triangles are of geometry 0: a shift by 31 turns their ids into 0, and leaves
                # the -1 of a miss, whose bits are those of INVALID_ID.
                np.right_shift(prim[part], 31, out=geometry[part].view(np.int32))
                primitive[part] = prim[part].view(np.uint32)
            else:
                self._ids[0].take(rows, out=geometry[part], mode="wrap")
                self._ids[1].take(rows, out=primitive[part], mode="wrap")
            for axis, weight in enumerate(weights):
                # fmax replaces NaN by 0.
                np.fmax(weight[part], 0.0, out=uvs[part, axis], casting="same_kind")
            if table is not None:
                table.take(rows, axis=0, out=answers["primitive_normals"][part], mode="wrap")

        share(n, CHUNK, fill, given.threads)
        return answers

    def _unit_normals(self, dtype: np.dtype[Any], threads: int) -> Reals:
        """Return the unit normals of all n triangles by their winding, shape (n + 1, 3), cached.

        The last row, zeros, is for misses. There is a table for each `dtype`.
        """
        table = self._normals.get(dtype)
        if table is None:
            table = np.zeros((len(self.tree) + 1, 3), dtype)
            vertices, faces = self.tree.vertices, self.tree.faces

            def fill(begin: int, end: int) -> None:
                table[begin:end] = normals_of(vertices[faces[begin:end]])

            # Two threads may both fill a table with the same normals.
            share(len(self.tree), CHUNK, fill, threads)
            self._normals[dtype] = table
        return table
