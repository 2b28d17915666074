"""Queries of a tree alone: statistics, files, faces of the source, closedness."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.container import DIGEST_SIZE, replace_file
from bvh.queries.methods.distance_queries import has_shapes
from bvh.queries.methods.overlap_queries import FindPairs
from bvh.queries.methods.point_queries import PointQueries
from bvh.queries.methods.ray_queries import TREE_CAST, CasterQueries, TreeCast
from bvh.queries.methods.section_queries import SectionQueries
from bvh.queries.methods.sight_queries import SightQueries
from bvh.queries.query_arguments import one_mask
from bvh.queries.tree_base import TreeBase, are_selected, cached, file_size_and_pieces
from bvh.queries.verbs import verb
from bvh.runtime.arguments import IdResult, integers, thread_count
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.registry import enrolled
from bvh.traversal.rays.one_ray import cast_function
from bvh.tree.arrays import TreeArrays, bytes_of
from bvh.tree.build import in_full
from bvh.tree.node_view import TreeNodes, tree_nodes
from bvh.tree.primitives import arrays_of
from bvh.tree.stats import TreeStats, check, stats_of

Pairs = NDArray[np.int32]
# What a selection selects, and whether a part of each item has to be in the region, or all of it.
Selected = Literal["faces", "vertices", "instances"]
RegionMode = Literal["touching", "inside"]


class TreeQueries(
    SectionQueries, CasterQueries[tuple[float, int, float, float, bool]], SightQueries, PointQueries
):
    """Queries of a tree."""

    __slots__ = ()

    def _caster(self, cull: int, mask: int | None) -> TreeCast:
        """Return a function that casts single rays at the tree as it is now (see `caster`).

        `cull` is the side of faces to ignore: 1 for the back, -1 for the front, 0 for none. The
        bits of `mask` select faces; None selects all.
        """
        bits = one_mask(mask)
        return cast_function(self._arrays_for(bits), cull, bits, TREE_CAST)

    def pick(
        self, camera: Any, x: float, y: float, radius: float = 0.0, *, mask: int | None = None
    ) -> Any:
        """Return the nearest hit of the tree under a cursor, or None, as `Scene.pick` does.

        The cursor is at the pixel (x, y) of `camera`. Within a `radius` in pixels, thin faces that
        the cursor misses are picked, too. Bits of `mask` select faces.

        Returns
        -------
        Pick or None
            A tree has no instances: `instance_id` and `leaf` are -1, `name` is None.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree.pick(camera, 55, 40)
        Pick(prim_id=0, t=9, position=[0.2, 0.4, 0])
        >>> tree.pick(camera, 49, 51) is None, tree.pick(camera, 49, 51, radius=3).vertex.id
        (True, 0)
        """
        return enrolled("picks in trees")(self._snapshot(), camera, x, y, radius, mask=mask)

    def picker(
        self, camera: Any, *, radius: float = 0.0, mask: int | None = None
    ) -> Callable[[float, float], Any]:
        """Return a function pick(x, y) that returns the nearest hit under the cursor, or None.

        `camera`, the `radius` in pixels and the `mask` of faces are as in `pick`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree.picker(camera)(55, 40)
        Pick(prim_id=0, t=9, position=[0.2, 0.4, 0])
        """
        return partial(self.pick, camera, radius=radius, mask=mask)

    def pick_rect(
        self, camera: Any, x0: float, y0: float, x1: float, y1: float, *,
        what: Selected = "faces", mode: RegionMode = "touching", visible_only: bool = False,
        samples: int = 1, mask: int | None = None, threads: int | None = None,
    ) -> Any:  # fmt: skip
        """Select what a rectangle in the picture touches or contains.

        The rectangle has opposite corners (x0, y0) and (x1, y1) in pixels of `camera`; the other
        arguments are as in `Scene.pick_rect`.

        Returns
        -------
        Selection
            A tree has no instances: `instance_id` is -1.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree.pick_rect(camera, 40, 40, 60, 60).ids
        array([0], dtype=int32)
        """
        return enrolled("selections in trees")(
            self._snapshot(), camera, [[x0, y0], [x1, y1]], what=what, mode=mode,
            visible_only=visible_only, samples=samples, mask=mask, threads=threads,
        )  # fmt: skip

    def pick_lasso(
        self, camera: Any, polygon: ArrayLike, *, what: Selected = "faces",
        mode: RegionMode = "touching", visible_only: bool = False, samples: int = 1,
        mask: int | None = None, threads: int | None = None,
    ) -> Any:  # fmt: skip
        """Select what a closed polygon in the picture touches or contains.

        `polygon` has the corners (n, 2) in pixels of `camera`; the other arguments are as in
        `Scene.pick_lasso`.

        Returns
        -------
        Selection
            A tree has no instances: `instance_id` is -1.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> tree.pick_lasso(camera, [[49, 51], [80, 51], [49, 20]], mode="inside").ids
        array([0], dtype=int32)
        """
        is_closed = True  # the last corner of the polygon is joined to the first
        return enrolled("selections in trees")(
            self._snapshot(), camera, polygon, is_closed, what=what, mode=mode,
            visible_only=visible_only, samples=samples, mask=mask, threads=threads,
        )  # fmt: skip

    @property
    def nodes(self) -> TreeNodes:
        """The nodes of the tree as read-only arrays, for a traversal of your own.

        Boxes are in world coordinates, rounded outward. Computed at the first use, with some 60
        bytes a node, and cached until a refit; pickles and files do not hold them.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> nodes = tree.nodes
        >>> nodes.begin.tolist(), nodes.end.tolist(), nodes.is_leaf.tolist(), nodes.prim_id.tolist()
        ([1, 0], [2, 1], [False, True], [0])
        """
        return cached(self._arrays, "_nodes", tree_nodes)

    @property
    def nbytes(self) -> int:
        """Bytes of the tree's arrays, and of data cached for the next query or refit.

        A new tree has no cached data. Queries cache tables for winding numbers and distances, bits
        of faces, full leaves of a compact tree, and `nodes`; the first refit, the arrays before it.
        """
        from bvh.queries.batches.distance_batches import cached_tables

        origin, derived = self._origin, vars(self._arrays)
        # The present arrays, the same with bits of faces, and those before the first refit; then
        # the full leaves, or the tree over axes of shapes, that each of these has cached.
        trees = [t for t in (self._arrays, derived.get("_grouped"), origin and origin.arrays) if t]
        trees += [vars(t)[k] for t in trees for k in ("_full", "_axes") if k in vars(t)]
        # Frames, of a few numbers, and the data of a user's primitives are left out.
        stored = [(*t.nodes, t.groups, t.face_bits, *arrays_of(t.primitives)) for t in trees]
        names = "_winding_terms", "_boundary_of", "_free_edges", "_nodes"
        tables = [derived.get(name) for name in names]
        tables.append(origin and origin.members)
        tables_of_trees = [cached_tables(arrays) for arrays in trees]
        return bytes_of(stored, self._groups, self._face_ids, tables, tables_of_trees)

    def stats(self) -> TreeStats:
        """Return statistics of the tree: size, depth, SAH cost, memory, ignored primitives.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.stats().leaf_sizes
        (0, 1)
        """
        return stats_of(self._arrays, self._build_seconds, self._groups)

    def validate(self) -> None:
        """Check the structure of the tree; raise a ValueError that names the first error.

        Every valid primitive must be in a leaf, and every box must contain what is below it.

        Examples
        --------
        >>> import bvh
        >>> bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]).validate()
        """
        check(self._arrays)

    def save(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Write the tree to a file, for `bvh.load`.

        The file holds flat arrays and no code. It is written under a temporary name and moved into
        place, so that a save that fails or is interrupted changes nothing.

        Parameters
        ----------
        path : str or path-like
            The file, created or replaced. Its ending is free; ``.bvh`` is usual.
        threads : int, optional
            Threads for the checksums; one for each CPU by default, -1 for all.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If `path` is something else than a file.
        TypeError
            If the tree holds a user's primitives, whose test is code.

        Examples
        --------
        >>> import bvh, os, tempfile
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tree.save(os.path.join(folder, "one.bvh"))
        ...     again = bvh.load(os.path.join(folder, "one.bvh"))
        >>> again.closest_hit([0.25, 0.25, 1.0], [0.0, 0.0, -1.0])
        Hits(t=1.0, prim_id=0, u=0.25, v=0.25, front=True)
        """
        replace_file(path, file_size_and_pieces(self, thread_count(threads))[1])

    @verb({"prim_id": ()}, np.int32)
    def face_of(self, prim_id: int | ArrayLike) -> IdResult:
        """Return the face of the source that a triangle is a part of.

        Parameters
        ----------
        prim_id : int or array_like of int
            Ids of triangles, for example those of `Hits`; -1 for a miss.

        Returns
        -------
        int or ndarray of int32
            The item of `face_ids` of each triangle, or `prim_id` without `face_ids`; -1 for misses.

        Examples
        --------
        >>> import bvh
        >>> square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> tree = bvh.BVH.from_mesh((square, [[0, 1, 2, 3]]))
        >>> hits = tree.closest_hit([[0.9, 0.5, 1], [0.1, 0.5, 1], [5, 5, 1]], [0, 0, -1])
        >>> hits.prim_id, tree.face_of(hits.prim_id)
        (array([ 0,  1, -1], dtype=int32), array([ 0,  0, -1], dtype=int32))
        """
        if is_other(prim_id):
            return foreign_answer(self.face_of, locals())
        ids = integers("prim_id", prim_id)
        if ids.size and not (ids.min() >= -1 and ids.max() < len(self)):
            raise ValueError(f"prim_id must be in -1..{len(self) - 1}, got {prim_id!r}")
        faces = ids.astype(np.int32)
        if self._face_ids is not None:
            hit = ids >= 0
            faces[hit] = self._face_ids[faces[hit]]
        return faces.item() if faces.ndim == 0 else faces

    @property
    def is_closed(self) -> bool:
        """Whether the faces of a tree over triangles bound a volume.

        An even number of the finite faces share each edge; edges with ends at equal positions are
        one. Computed at the first use, in some 20 ms for each million faces, and cached until a
        refit.

        Examples
        --------
        >>> import bvh, trimesh
        >>> bvh.BVH.from_mesh(trimesh.creation.box()).is_closed
        True
        """
        from bvh.tree.open_edges import is_closed

        now = self._snapshot()
        triangles = now._triangles()
        return cached(now._arrays, "_is_closed", lambda _: is_closed(triangles))

    @property
    def is_oriented(self) -> bool:
        """Whether the faces of a tree over triangles are wound alike.

        Equally many finite faces use each edge in either direction, or one more in one direction if
        their number is odd; edges are compared by position, as in `is_closed`. Normals may point
        outward or inward. Computed at the first use, in some 0.4 s for each million faces, and
        cached until a refit.

        Examples
        --------
        >>> import bvh, trimesh
        >>> box = trimesh.creation.box()
        >>> box.faces[0] = box.faces[0, ::-1]
        >>> bvh.BVH.from_mesh(box).is_closed, bvh.BVH.from_mesh(box).is_oriented
        (True, False)
        """
        from bvh.tree.open_edges import is_oriented

        now = self._snapshot()
        triangles = now._triangles()
        return cached(now._arrays, "_is_oriented", lambda _: is_oriented(triangles))

    def open_edges(self) -> NDArray[np.int32]:
        """Return the edges of a tree over triangles that an odd number of finite faces share.

        Returns
        -------
        ndarray of int32, shape (n, 2)
            The two vertices at the ends of each edge. Where several vertices have one position, the
            vertices are those of the first face at the edge. There are no rows if `is_closed`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.open_edges().tolist()
        [[0, 1], [1, 2], [2, 0]]
        """
        from bvh.tree.open_edges import open_edges

        return open_edges(self._triangles())

    def __dask_tokenize__(self) -> tuple[str, str]:
        """Return the identity of the tree's content for Dask: a checksum of its primitives."""
        return "bvh.BVH", cached(self._arrays, "_token", self._checksum)

    def _checksum(self, arrays: TreeArrays) -> str:
        """Return a checksum of the primitives in `arrays`, of groups and quality, in hexadecimal.

        For custom primitives it is random, as a user's function has no stable checksum.
        """
        columns = [a for a in arrays.primitives if isinstance(a, np.ndarray)]
        columns += [] if self._groups is None else [self._groups]
        # Checksums of 32 bits, as in files, would often be equal for two of 65 000 trees.
        parts = [blake2b(a.reshape(-1).view(np.uint8).data).digest() for a in columns]
        if self.kind == "custom":
            parts.append(secrets.token_bytes(DIGEST_SIZE))
        parts.append(str([self.kind, self._quality, *(a.shape for a in columns)]).encode())
        return blake2b(b"".join(parts), digest_size=DIGEST_SIZE).hexdigest()

    def _selected_pairs(
        self, pairs: Pairs, mask: int | None, other: object, other_mask: int | None
    ) -> Pairs:
        """Return the rows of `pairs`, (m, 2), whose faces are selected.

        The face of this tree shares a bit with `mask`, that of `other` with `other_mask`; a mask of
        None has all bits.
        """
        assert isinstance(other, TreeBase)
        for side, tree, given in ((0, self, mask), (1, other, other_mask)):
            bits = one_mask(given)
            # The mask -1, all bits, leaves out faces without any bit, if there are `face_bits`.
            if bits != -1 or len(tree._arrays.face_bits):
                pairs = pairs[are_selected(tree._groups, pairs[:, side], bits)]
        return pairs

    def _pair_search(self, query: str, other: object) -> FindPairs[Pairs]:
        """Return a function that finds the pairs of faces of this tree and of `other` that meet.

        Its arguments are a matrix (4, 4) that moves `other`, or None; whether shared vertices and
        edges are ignored, as in one mesh; the number of threads; and a progress callback or None.
        It returns rows (id, id in `other`). `query` is the name for errors.
        """
        from bvh.queries.batches.overlap_batches import find_pairs

        if has_shapes(query, self, other):
            assert isinstance(other, TreeBase)
            return enrolled("contacts of round trees")(self, other)  # type: ignore[no-any-return]
        arrays, second = self._arrays, self._other_tree(query, other)
        # Not `second._arrays` for this tree: a refit may have replaced `arrays` in between.
        others = arrays if second is self else second._arrays
        return partial(find_pairs, in_full(arrays), in_full(others))
