"""Constructors of trees over triangles: from arrays, meshes and files."""

from __future__ import annotations

import os
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from bvh.io.mesh_objects import faces_of_points, faces_of_segments
from bvh.io.meshes import face_groups, groups_of_triangles, surface_of
from bvh.queries.heightfields import surface_of_heights
from bvh.queries.tree_base import OPEN_IS_FINE, TreeBase
from bvh.runtime import arguments
from bvh.runtime.arguments import Memory, Quality
from bvh.runtime.caller_warnings import warn_if_empty
from bvh.runtime.jit import notice
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.runtime.threads import copied
from bvh.tree.build import build
from bvh.tree.primitives import Primitives, Triangles


class MeshTrees(TreeBase):
    """The constructors of `BVH` over triangles."""

    __slots__ = ()

    @classmethod
    def from_triangles(
        cls, vertices: ArrayLike, faces: ArrayLike, *, groups: ArrayLike | None = None,
        quality: Quality = "medium", memory: Memory = "full", threads: int | None = None,
        progress: ProgressLike | None = None, warn: bool = True,
    ) -> Self:  # fmt: skip
        """Build a tree over triangles.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Coordinates, converted to float64. Faces with a NaN or infinite vertex are ignored
            (other faces keep their ids) and counted in `stats`.
        faces : array_like of int, shape (m, 3)
            Vertex indices; the normal is (v1-v0) x (v2-v0). The tree copies both arrays, unless
            they are float64 and int32, and read-only (``vertices.flags.writeable = False``), as are
            the arrays that they are views of: arrays that are not copied must not change.
        groups : int or array_like of int, shape (m,), optional
            32 bits for each face, or for all of them; all bits by default. A query with a `mask`
            answers as if there were only the faces that share a bit with it; without a `mask`, the
            query has all bits. So no query finds faces whose bits are 0.
        quality : {"medium", "high"}
            "medium" is binned SAH; "high" also splits large triangles between nodes, which is
            worthwhile for long oblique ones, and takes several times as long to build.
        memory : {"full", "compact"}
            "compact" has leaves of 16-bit numbers: 31 to 38 bytes a triangle in place of 60,
            without vertices and faces. Answers are the same. Only rays and closest points read such
            leaves: overlaps, distances of trees, and scenes make full ones at their first use.
        threads : int, optional
            Threads to use; one for each CPU by default, and -1 for all CPUs of the affinity. The
            tree does not depend on it.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in primitives, a few times a second. True shows a bar
            of rich or tqdm; a bar or the class of tqdm is accepted, too.
        warn : bool
            False disables the warning below, and the warnings of queries about open edges.

        Warns
        -----
        BVHWarning
            If there are no faces, or none without a NaN or infinite vertex: every query misses.

        Examples
        --------
        >>> import bvh
        >>> vertices, faces = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]
        >>> tree = bvh.BVH.from_triangles(vertices, faces, groups=[1, 2])
        >>> len(tree), tree.bounds.tolist()
        (2, [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
        >>> ray = [0.2, 0.6, 5.0], [0.0, 0.0, -1.0]
        >>> tree.any_hit(*ray), tree.any_hit(*ray, mask=1)
        (True, False)
        """
        points = arguments.rows("vertices", vertices)
        index = arguments.face_rows("faces", faces, len(points))
        bits = None if groups is None else face_groups(groups, len(index))
        workers = arguments.thread_count(threads)
        primitives = Triangles(
            arguments.unchanging(points, vertices, lambda array: copied(array, workers)),
            arguments.unchanging(index, faces, lambda array: copied(array, workers, np.int32)),
        )
        tree = cls._build(primitives, quality, threads, progress, memory=memory)
        tree._set_groups(bits)
        if arguments.flag("warn", warn):
            warn_if_empty(tree)
        else:
            # Queries then give no warning of open edges.
            tree._closed[OPEN_IS_FINE] = True
        return tree

    @classmethod
    def from_mesh(
        cls, mesh: Any, *, groups: ArrayLike | None = None, quality: Quality = "medium",
        memory: Memory = "full", threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Self:  # fmt: skip
        """Build a tree over a mesh.

        Parameters
        ----------
        mesh : object
            One of these:

            - (vertices, faces), with faces an array (m, 3) of triangles, (m, 4) of quads, (m, n) of
              polygons, or a list of lists of any lengths;
            - ``trimesh.Trimesh``, or ``trimesh.Scene``, which is flattened, its instances in the
              order of its graph;
            - ``pyvista.PolyData``, other data sets of PyVista, whose surface is taken, and
              ``MultiBlock``, flattened;
            - ``open3d.geometry.TriangleMesh``, ``open3d.t.geometry.TriangleMesh``;
            - ``meshio.Mesh``: its surface;
            - points and lines, if there is nothing else: of ``pyvista.PolyData``, of
              ``trimesh.PointCloud`` and paths, of Open3D's ``PointCloud`` and ``LineSet``, as by
              `from_points` and `from_segments`;
            - anything else with arrays ``vertices`` and ``faces``.

            `from_file` reads files.
        groups : int or array_like of int, optional
            32 bits for each face or cell of the source, or for all of them, as in `from_triangles`.
        quality, memory, threads, progress
            Options of the tree, number of threads, and callback or bar, as in `from_triangles`.

        Returns
        -------
        BVH
            Over triangles. If faces were cut into triangles, or are numbered as cells, `face_ids`
            gives the face or cell of each triangle, and `face_of` that of a hit.

        Notes
        -----
        A polygon of n corners becomes n - 2 triangles with its corners and winding, so that closed
        meshes stay closed. A convex polygon becomes a fan about its first corner. Others are cut by
        ear clipping with exact signs, projected along the axis nearest to the polygon's normal; if
        the projection is simple, no triangles overlap (Meisters 1975, "Polygons have ears").
        Repeated corners count once, and fewer than three corners give no triangle. A polygon with a
        vertex that is not finite is ignored.

        The surface of solid cells, such as tetrahedra, consists of the facets that belong to one
        cell only, numbered by their cells, through all blocks as in the libraries' cell data;
        curved cells are reduced to their corners. Cells whose surface is unknown, such as
        polyhedra, are skipped with a `BVHWarning`.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [2, 0, 0], [2, 2, 0], [1, 1, 0], [0, 2, 0], [3, 0, 0]]
        >>> tree = bvh.BVH.from_mesh((vertices, [[1, 5, 2], [0, 1, 2, 3, 4]]))
        >>> tree.face_ids
        array([0, 1, 1, 1], dtype=int32)
        >>> tree.any_hit([[1, 1.5, 9], [0.5, 1.2, 9]], [0, 0, -1])
        array([False,  True])
        """
        surface = surface_of(mesh, threads)
        tree = cls.from_triangles(
            surface.vertices, surface.faces, groups=groups_of_triangles(groups, surface),
            quality=quality, memory=memory, threads=threads, progress=progress,
        )  # fmt: skip
        if surface.face_ids is not None:
            tree._face_ids = arguments.owned(surface.face_ids, np.int32)
        return tree

    @classmethod
    def from_points(
        cls, points: ArrayLike, *, groups: ArrayLike | None = None, quality: Quality = "medium",
        memory: Memory = "full", threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Self:  # fmt: skip
        """Build a tree over points.

        Points are faces without area, so all queries of faces take them, such as the k nearest,
        overlaps, distances and selections, alone and in scenes with meshes. A ray never hits a
        point: pick with a radius, or query the closest point.

        Parameters
        ----------
        points : array_like, shape (n, 3)
            Points that are not finite are ignored (others keep their ids).
        groups, quality, memory, threads, progress
            Bits of each point, and options of the tree, as in `from_triangles`.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_points([[0, 0, 0], [2, 0, 0], [0, 3, 0]])
        >>> tree
        BVH(3 points, 1 node)
        >>> near = tree.closest_point([1.5, 1.0, 0.0], k=2)
        >>> near.prim_id.tolist(), near.distance.round(3).tolist()
        ([1, 0], [1.118, 1.803])
        """
        return cls.from_triangles(
            *faces_of_points(points), groups=groups, quality=quality, memory=memory,
            threads=threads, progress=progress,
        )  # fmt: skip

    @classmethod
    def from_segments(
        cls, p: ArrayLike, q: ArrayLike, *, groups: ArrayLike | None = None,
        quality: Quality = "medium", memory: Memory = "full", threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Self:  # fmt: skip
        """Build a tree over line segments: wires, edges of a mesh, paths.

        Segments are faces without area, as the points of `from_points` are: no ray hits them.

        Parameters
        ----------
        p, q : array_like, shape (n, 3)
            Ends of the segments. A segment with an end that is not finite is ignored.
        groups, quality, memory, threads, progress
            Bits of each segment, and options of the tree, as in `from_triangles`.

        Examples
        --------
        >>> import bvh
        >>> wires = bvh.BVH.from_segments([[0, 0, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1]])
        >>> near = wires.closest_point([0.5, 0.5, 0.1])
        >>> near.prim_id, near.position.tolist()
        (0, [0.5, 0.0, 0.0])
        """
        return cls.from_triangles(
            *faces_of_segments(p, q), groups=groups, quality=quality, memory=memory,
            threads=threads, progress=progress,
        )  # fmt: skip

    @classmethod
    def from_heightfield(
        cls, z: Any, x: ArrayLike | None = None, y: ArrayLike | None = None, *,
        transform: Any = None, groups: ArrayLike | None = None, quality: Quality = "medium",
        memory: Memory = "full", threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Self:  # fmt: skip
        """Build a tree over a height field: terrain, a raster, a depth map.

        Parameters
        ----------
        z : array_like, shape (rows, columns)
            Heights. Cells with a corner whose height is NaN, or masked, are holes. The coordinates
            of an ``xarray.DataArray`` are used, too; dimension x is the one with the ``axis``,
            ``standard_name`` or name of x, such as lon, longitude and easting, or else the second.
        x : array_like, shape (columns,), optional
            Coordinates of the columns, rising or falling; by default 0, 1, 2, ... For an array
            whose first dimension is x, `x` has the coordinates of the rows, and `y` those of the
            columns.
        y : array_like, shape (rows,), optional
            Coordinates of the rows, rising or falling; by default 0, 1, 2, ...
        transform : affine.Affine or six numbers, optional
            In place of `x` and `y`, as in rasterio: (a, b, c, d, e, f), where the corners of pixels
            are at x = a column + b row + c, y = d column + e row + f; heights are at their middles.
        groups, quality, memory, threads, progress
            Bits of each cell, and options of the tree, as in `from_mesh`.

        Returns
        -------
        BVH
            Two triangles a cell, cut along one diagonal, with normals upward. `face_of` a hit is
            its cell, counted row by row: ``np.unravel_index(cell, (rows - 1, columns - 1))``; the
            vertices are in the order of `z`.

        Examples
        --------
        >>> import bvh, numpy as np
        >>> hill = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
        >>> tree = bvh.BVH.from_heightfield(hill, x=[10, 20, 30], y=[50, 40, 30])
        >>> hit = tree.closest_hit([22.0, 34.0, 9.0], [0.0, 0.0, -1.0])
        >>> hit.position.round(9).tolist()
        [22.0, 34.0, 0.8]
        >>> np.unravel_index(tree.face_of(hit.prim_id), (2, 2))
        (np.int64(1), np.int64(1))
        """
        return cls.from_mesh(
            surface_of_heights(z, x, y, transform), groups=groups, quality=quality, memory=memory,
            threads=threads, progress=progress,
        )  # fmt: skip

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, groups: ArrayLike | None = None,
        quality: Quality = "medium", memory: Memory = "full", threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Self:  # fmt: skip
        """Build a tree over the mesh in a file.

        Parameters
        ----------
        path : str or path-like
            Any file of triangles or polygons that trimesh reads, such as .stl, .ply and .obj; those
            of meshio (``pip install "raybvh[meshio]"``), such as .vtk and .msh; or .npz with arrays
            ``vertices`` and ``faces``. Vertices and faces keep their order, and `face_of` gives the
            row of a polygon. Files of positioned meshes, such as .glb, are flattened:
            `bvh.load_scene`, which says what is read of glTF, keeps their instances and names. The
            outside of mirrored ones stays outside.
        groups, quality, memory, threads, progress
            Bits of each face of the file, and options of the tree, as in `from_mesh`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file cannot be read, needs an extension of glTF that is not supported, holds no
            triangles, is a saved tree or scene, which `bvh.load` opens, or would unpack to 1 GiB
            (or BVH_MAX_UNPACKED bytes) more than eight times its size.
        ImportError
            If the format needs meshio, and it is not installed.

        Examples
        --------
        >>> import bvh, os, tempfile, trimesh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "box.stl")
        ...     _ = trimesh.creation.box().export(path)
        ...     bvh.BVH.from_file(path)
        BVH(12 triangles, 1 node)
        """
        # Imported only here, as readers of files are many modules.
        from bvh.io.mesh_files import mesh_of_file

        return cls.from_mesh(
            mesh_of_file(path, threads), groups=groups, quality=quality, memory=memory,
            threads=threads, progress=progress,
        )  # fmt: skip

    @classmethod
    def _build(
        cls, primitives: Primitives, quality: Quality = "medium", threads: int | None = None,
        progress: ProgressLike | None = None, noun: str | None = None, memory: Memory = "full",
    ) -> Self:  # fmt: skip
        """Build a tree over checked primitives; options are those of `from_triangles`.

        A `noun`, such as "boxes", is the name of the primitives in a `BVHWarning`, which is given
        if none of them is valid. Without a `noun` there is no warning.
        """
        arguments.check_option("memory", memory, get_args(Memory))
        leaf_type = np.int16 if memory == "compact" else np.float32
        workers = arguments.thread_count(threads)
        began = notice.clock()
        with heard(progress) as report:
            arrays, bounds = build(primitives, quality, workers, report, leaf_type)
        # Created only now, so that an exception leaves no incomplete tree.
        tree = object.__new__(cls)
        tree._quality, tree._face_ids, tree._bounds = quality, None, bounds
        tree._set_arrays(arrays)
        tree._build_seconds = notice.clock() - began
        if noun is not None:
            warn_if_empty(tree, noun)
        return tree
