"""Content of a mesh in parts: boxes, sizes, sources and vertices, read from its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.distributed.merging import Rows
from bvh.distributed.out_of_core.open_parts import byte_count, open_parts
from bvh.distributed.out_of_core.part_visits import PartVisits
from bvh.distributed.part_folder import Index, PartRecord, Source, is_url, read_index
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import ALL_BITS, CountResult, integers, number_of, shaped
from bvh.runtime.foreign_arrays import foreign_answer, is_lazy, is_other
from bvh.scene.files.loading import prefixed


class PartContent:
    """Base class of `Parts`: the index of a folder of parts, and its parts, opened when needed."""

    _id_type = np.int64

    def __init__(self, folder: str | os.PathLike[str], *, memory: int | str = "2GB") -> None:
        place = os.fspath(folder)
        if not is_url(place):
            # Other processes, and this one later, may be in another folder.
            place = os.path.abspath(place)
        self._set(place, read_index(place), byte_count("memory", memory), None)

    def _set(self, place: str, index: Index, memory: int, chosen: tuple[int, ...] | None) -> None:
        """Set all attributes; `chosen` are the numbers of the parts of a group, None for all."""
        self._place, self._index, self._memory, self._chosen = place, index, memory, chosen
        self.opened = open_parts(place, index, memory)
        boxes = np.array([part.bounds or [np.nan] * 6 for part in index.parts], np.float64)
        boxes = boxes.reshape(-1, 6)
        # `fmin` and `fmax` ignore NaN.
        low = np.fmin.reduce(boxes[:, :3], initial=np.nan)
        self._bounds = np.array([low, np.fmax.reduce(boxes[:, 3:], initial=np.nan)])
        if chosen is not None:
            # Parts with a box of NaN are not visited, and the others keep their numbers.
            boxes[np.setdiff1d(np.arange(len(boxes)), chosen)] = np.nan
        bits = [ALL_BITS if part.groups is None else part.groups for part in index.parts]
        self._visits = PartVisits(self.opened, boxes, np.array(bits, np.uint32))

    def groups(self) -> list[Self]:
        """Return the parts in groups that fit into `memory`, as one object each.

        A group has the ids and the bounds of all parts, and answers for its parts alone.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     len(parts.groups())
        1
        """
        groups: list[list[int]] = [[]]
        used = 0
        for number in range(self.part_count) if self._chosen is None else self._chosen:
            size = self._index.parts[number].nbytes
            if groups[-1] and used + size > self._memory:
                groups.append([])
                used = 0
            groups[-1].append(number)
            used += size
        if len(groups) == 1:
            return [self]
        result = [object.__new__(type(self)) for _ in groups]
        for each, group in zip(result, groups, strict=True):
            each._set(self._place, self._index, self._memory, tuple(group))
        return result

    @property
    def folder(self) -> str:
        """The folder or URL of the parts."""
        return self._place

    @property
    def sources(self) -> tuple[Source, ...]:
        """The meshes and files that were partitioned, with their first ids."""
        return self._index.sources

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Lower and upper corner of all valid triangles, shape (2, 3); NaN if there are none."""
        return self._bounds

    @property
    def part_count(self) -> int:
        """Number of parts."""
        return len(self._index.parts)

    @property
    def records(self) -> tuple[PartRecord, ...]:
        """Size, box and checksums of each part."""
        return self._index.parts

    def validate(self) -> None:
        """Check all parts, byte by byte; raise a ValueError that names the first error.

        The digests of all files are those of the index, boxes and groups those of its triangles,
        and each tree is sound, as in `BVH.validate`. It opens every part.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.validate()
        """
        for number in range(self.part_count):
            self.opened.check_content(number)
            tree = self.opened.part(number).tree
            with prefixed(f"{self._place}: part {number}"):
                tree.validate()

    @property
    def nbytes(self) -> int:
        """Bytes of all files of parts."""
        return sum(part.nbytes for part in self._index.parts)

    def corners(self, prim_id: ArrayLike) -> NDArray[np.float64]:
        """Return the vertices of triangles. It opens every part.

        Parameters
        ----------
        prim_id : array_like of int, shape (...)
            For example that of `Hits`; -1 for a miss.

        Returns
        -------
        ndarray of float64, shape (..., 3, 3)
            Rows are vertices; NaN for -1.

        Examples
        --------
        >>> import bvh, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), folder)
        ...     parts.corners([0, -1])[:, 1]
        array([[ 1.,  0.,  0.],
               [nan, nan, nan]])
        """
        if is_other(prim_id):
            return foreign_answer(self.corners, locals())
        ids = self._checked_ids(prim_id)
        result = np.full((ids.size, 3, 3), np.nan)
        for tree, here, row in self._trees_of(ids.reshape(-1)):
            result[here] = tree.vertices[tree.faces[row]]
        return result.reshape(*ids.shape, 3, 3)

    def groups_of(self, prim_id: ArrayLike) -> NDArray[np.uint32] | int:
        """Return the bits of triangles, by which `mask` of a query selects.

        It opens every part. `prim_id`, shape (...), is as in `corners`.

        Returns
        -------
        ndarray of uint32 or int, shape (...)
            The groups that `bvh.partition` was given, all bits if it was given none; 0 for -1.

        Examples
        --------
        >>> import bvh, tempfile
        >>> vertices, faces = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     parts = bvh.partition((vertices, faces), folder, groups=[1, 6])
        ...     parts.groups_of([1, 0, -1])
        array([6, 1, 0], dtype=uint32)
        """
        if is_other(prim_id):
            return foreign_answer(self.groups_of, locals())
        ids = self._checked_ids(prim_id)
        result = np.where(ids.reshape(-1) < 0, 0, ALL_BITS).astype(np.uint32)
        if self._has_groups:
            for tree, here, row in self._trees_of(ids.reshape(-1)):
                if tree.groups is not None:
                    result[here] = tree.groups[row]
        bits: NDArray[np.uint32] | int = shaped(ids.shape, result)[0]
        return bits

    @property
    def _has_groups(self) -> bool:
        """Whether the tree of a part stores group bits."""
        return any(part.groups is not None for part in self._index.parts)

    def _trees_of(self, ids: NDArray[np.int64]) -> Iterator[tuple[BVH, Rows, Rows]]:
        """Yield (tree, rows, faces) for each part: the tree's `faces` have the ids `ids[rows]`."""
        for part in map(self.opened.part, range(self.part_count)):
            # The ids of a part ascend; those of other parts are not found.
            row = np.minimum(np.searchsorted(part.ids, ids), len(part.ids) - 1)
            here = np.flatnonzero(part.ids[row] == ids)
            yield part.tree, here, row[here]

    def _checked_ids(self, prim_id: ArrayLike) -> NDArray[np.int64]:
        """Return ids of triangles as int64; raise for Dask arrays, and ids not in -1..n - 1."""
        if is_lazy(prim_id):
            raise TypeError("prim_id must be a numpy array, got a Dask array: compute it first")
        ids = integers("prim_id", prim_id)
        if ids.size and not (ids.min() >= -1 and ids.max() < len(self)):
            raise ValueError(f"prim_id must be in -1..{len(self) - 1}, got {prim_id!r}")
        return ids.astype(np.int64)

    def __len__(self) -> int:
        """Return the number of triangles, including ignored ones."""
        return self._index.triangles

    def __repr__(self) -> str:
        triangles, parts = number_of(len(self), "triangles"), number_of(self.part_count, "parts")
        return f"Parts({triangles} in {parts})"

    def __getstate__(self) -> tuple[str, Index, int, tuple[int, ...] | None]:
        return self._place, self._index, self._memory, self._chosen

    def __setstate__(self, state: tuple[str, Index, int, tuple[int, ...] | None]) -> None:
        self._set(*state)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return "bvh.Parts", self._place, self._index.digest, self._memory, self._chosen

    def source_of(self, prim_id: ArrayLike) -> tuple[CountResult, CountResult]:
        """Return the source of each triangle, and the face in it.

        `prim_id`, shape (...), is as in `corners`.

        Returns
        -------
        source, face : ndarray of int64, of the shape of `prim_id`
            Row of `sources`, and index of the triangle in it; -1 for -1.

        Examples
        --------
        >>> import bvh, tempfile, trimesh
        >>> ball, folder = trimesh.creation.icosphere(), tempfile.TemporaryDirectory()
        >>> parts = bvh.partition([ball, ball], folder.name)
        >>> source, face = parts.source_of([0, 1280, 1281, -1])
        >>> source, face
        (array([ 0,  1,  1, -1]), array([ 0,  0,  1, -1]))
        >>> parts.sources[source[1]]
        Source(name='mesh 1', first=1280, triangles=1280)
        """
        if is_other(prim_id):
            return foreign_answer(self.source_of, locals())
        ids = self._checked_ids(prim_id)
        firsts = np.array([source.first for source in self.sources] or [0], np.int64)
        source = np.where(ids < 0, -1, np.searchsorted(firsts, ids, side="right") - 1)
        face = np.where(ids < 0, -1, ids - firsts[np.maximum(source, 0)])
        return source, face
