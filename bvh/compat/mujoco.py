"""Rays of MuJoCo's models: `scene(model)` follows `MjData`, for `mj_ray` and `mj_multiRay`.

Boxes, meshes, height fields, spheres and capsules are exact; cylinders and ellipsoids are inscribed
meshes, off by less than 0.0003 of their radii; planes are tested separately.
"""

from typing import Any, NamedTuple, Self

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import common_shape, reals, vectors, whole_number
from bvh.scene.scene import Scene

__all__ = ["GeomHits", "ModelScene", "mj_multiRay", "mj_ray", "scene"]
__dir__ = __all__.copy

Reals = NDArray[np.float64]

# Kinds of geoms by MuJoCo's numbers.
PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
# Number of groups of geoms.
GROUPS = 6
# Segments of a cylinder's circles, and subdivisions of an icosahedron, for ellipsoids.
ROUND, FINE = 256, 5


class GeomHits(NamedTuple):
    """Closest hits of rays on geoms: arrays of the rays' leading shape. A miss has t inf, id -1.

    Attributes
    ----------
    t : ndarray of float64
        Distance in units of the direction's length.
    geom_id : ndarray of int32
        The geom of each hit.
    normal : ndarray of float64, shape (..., 3), or None
        Unit normals, outward, zeros for a miss; None unless ``normals=True``.

    Examples
    --------
    >>> world.closest_hit([0, 0, 5], [0, 0, -1]).geom_id  # doctest: +SKIP
    array(3, dtype=int32)
    """

    t: Reals
    geom_id: NDArray[np.int32]
    normal: Reals | None


class ModelScene:
    """The geoms of an ``MjModel`` as instances of a scene; `follow` moves them.

    Attributes
    ----------
    scene : Scene
        All geoms but planes and those that are fully transparent.
    geom_id : ndarray of int32
        The geom of each instance.

    Examples
    --------
    >>> import mujoco  # doctest: +SKIP
    >>> world = scene(mujoco.MjModel.from_xml_path("robot.xml"))  # doctest: +SKIP
    >>> world.follow(data)  # doctest: +SKIP
    """

    def __init__(self, model: Any) -> None:
        self.scene, geoms = Scene(), []
        # Positions (n, 3) and rotations (n, 3, 3) of all geoms, as `follow` reads them.
        self._frames: tuple[Reals, Reals] | None = None
        self._model, self._planes = model, []
        # The group of each geom, whether it is static (part of the world, body 0), and its opacity.
        self._group = np.clip(model.geom_group, 0, GROUPS - 1)
        self._fixed = model.body_weldid[model.geom_bodyid] == 0
        opacity = model.geom_rgba[:, 3].copy()
        with_material = model.geom_matid >= 0
        opacity[with_material] = model.mat_rgba[model.geom_matid[with_material], 3]
        # Trees by what they are made of: equal geoms share one.
        shared: dict[tuple[Any, ...], BVH] = {}
        for number in range(model.ngeom):
            kind, size = int(model.geom_type[number]), model.geom_size[number]
            if opacity[number] == 0.0:
                continue
            if kind == PLANE:
                self._planes.append(number)
                continue
            key = (kind, int(model.geom_dataid[number]), *size.tolist())
            if key not in shared:
                shared[key] = _tree_of(model, number, kind, size)
            self.scene.add(shared[key])
            geoms.append(number)
        self.geom_id = np.array(geoms, np.int32)

    def follow(self, data: Any) -> Self:
        """Move the geoms to where `data`, an ``MjData`` of the model, has them; return self."""
        maps = np.tile(np.eye(4), (len(self.geom_id), 1, 1))
        maps[:, :3, 3] = data.geom_xpos[self.geom_id]
        maps[:, :3, :3] = data.geom_xmat[self.geom_id].reshape(-1, 3, 3)
        self.scene.set_transforms(np.arange(len(maps)), maps)
        self._frames = data.geom_xpos.copy(), data.geom_xmat.reshape(-1, 3, 3).copy()
        return self

    def closest_hit(
        self, origins: ArrayLike, directions: ArrayLike, t_max: ArrayLike = np.inf, *,
        groups: ArrayLike | None = None, static: bool = True, exclude: int = -1,
        normals: bool = False,
    ) -> GeomHits:  # fmt: skip
        """Find the closest hit of each ray of a batch on all geoms, planes as well.

        Parameters
        ----------
        origins, directions : array_like, shape (..., 3)
            As of `Scene.closest_hit`; shapes are broadcast, with that of `t_max`, too.
        t_max : float or array_like, shape (...)
            In units of each direction's length.
        groups : array_like of bool, shape (6,), optional
            The groups of geoms that count.
        static : bool
            Whether static geoms count.
        exclude : int
            A body that is left out.
        normals : bool
            Whether to compute normals, which doubles the time.

        Examples
        --------
        >>> world.follow(data).closest_hit(sensors[:, None], beams).geom_id  # doctest: +SKIP
        """
        if self._frames is None:
            raise ValueError("the geoms have no places yet: call follow(data) before rays are cast")
        given = {"origins": origins, "directions": directions}
        o, d = (vectors(name, reals(name, each)) for name, each in given.items())
        limit = reals("t_max", t_max)
        shape = common_shape(origins=o.shape[:-1], directions=d.shape[:-1], t_max=limit.shape)
        o, d = (np.broadcast_to(each, (*shape, 3)).reshape(-1, 3) for each in (o, d))
        limit = np.broadcast_to(limit, shape).reshape(-1)
        chosen = np.ones(GROUPS, bool) if groups is None else np.asarray(groups).astype(bool)
        if chosen.shape != (GROUPS,):
            raise ValueError(f"groups must have shape ({GROUPS},), got {chosen.shape}")
        # Whether each geom counts.
        counts = chosen[self._group] & (self._model.geom_bodyid != exclude)
        counts &= bool(static) | ~self._fixed
        # A single ray, with a float as its limit, is faster than a batch of one.
        single = len(d) == 1
        rows: Any = 0 if single else slice(None)
        hidden = np.flatnonzero(~counts[self.geom_id])
        hits = self.scene.closest_hit(
            o[rows], d[rows], t_max=limit.item() if single else limit,
            exclude=hidden if len(hidden) else None,
        )  # fmt: skip
        t, hit, ids = (np.array(c).reshape(-1) for c in (hits.t, hits.mask, hits.instance_id))
        normal = np.zeros(d.shape)
        if normals:
            normal[hit] = np.reshape(hits.normal, (-1, 3))[hit]
        geom = np.full(len(t), -1)
        geom[hit] = self.geom_id[ids[hit]]
        for number in self._planes:
            if counts[number]:
                place = self._frames[0][number], self._frames[1][number]
                self._add_plane(number, place, o, d, limit, t, geom, normal)
        t, geom_id = np.where(geom >= 0, t, np.inf), geom.astype(np.int32)
        normal = normal.reshape(*shape, 3)
        return GeomHits(t.reshape(shape), geom_id.reshape(shape), normal if normals else None)

    def _add_plane(
        self, number: int, place: tuple[Reals, Reals], origins: Reals, directions: Reals,
        limit: Reals, t: Reals, geom: NDArray[np.int32], normal: Reals,
    ) -> None:  # fmt: skip
        """Write the hits of the plane `number` to `t`, `geom` and `normal` where they are nearer.

        Rays from behind miss it. `place` is the plane's position and rotation, whose third column
        is the normal; `limit` is the largest t of each ray.
        """
        center, rotation = place
        with np.errstate(divide="ignore", invalid="ignore"):
            # How the height above the plane changes with t, and the t at which the height is 0.
            slope = directions @ rotation[:, 2]
            at_plane = (center @ rotation[:, 2] - origins @ rotation[:, 2]) / slope
            nearer = (at_plane >= 0.0) & (at_plane < t) & (at_plane <= limit) & np.isfinite(slope)
            rows = np.flatnonzero((slope < 0.0) & nearer)
        # Half extents along x and y; 0 for an infinite one.
        size = self._model.geom_size[number, :2]
        if (size > 0.0).any():
            points = origins[rows] + at_plane[rows, None] * directions[rows] - center
            within = np.abs(points @ rotation[:, :2]) <= size
            rows = rows[((size <= 0.0) | within).all(axis=1)]
        t[rows], geom[rows], normal[rows] = at_plane[rows], number, rotation[:, 2]


scene = ModelScene


def mj_ray(
    world: ModelScene, pnt: ArrayLike, vec: ArrayLike, geomgroup: ArrayLike | None = None,
    flg_static: Any = 1, bodyexclude: int = -1, geomid: Any = None, normal: Any = None,
) -> float:  # fmt: skip
    """Return the distance of a ray's hit, as ``mujoco.mj_ray``: in units of vec; -1 for a miss.

    Arrays `geomid` and `normal` get the geom and the normal, unless they are None.
    """
    t = np.empty(1)
    options = geomgroup, flg_static, bodyexclude
    mj_multiRay(world, pnt, vec, *options, geomid, t, normal, cutoff=np.inf)
    return float(t[0])


def _options(
    normal: Any = None, nray: int | None = None, cutoff: float = 1e10
) -> tuple[Any, int | None, float]:
    """Return the last arguments of `mj_multiRay`, given by position or name, or their defaults."""
    return normal, nray, cutoff


def mj_multiRay(
    world: ModelScene, pnt: ArrayLike, vec: ArrayLike, geomgroup: ArrayLike | None,
    flg_static: Any, bodyexclude: int, geomid: Any, dist: Any, *more: Any, **named: Any,
) -> None:  # fmt: skip
    """Cast rays from one point `pnt` along `vec`, as ``mujoco.mj_multiRay``.

    Distances are written to the array `dist`, and geoms and normals to `geomid` and `normal`, if
    these are not None. More arguments are `normal`, `nray` and `cutoff`, the largest distance, in
    this order or by name; by default None, all rays and 1e10. MuJoCo also returns some hits beyond
    `cutoff`. Arrays that are too short are a ValueError.
    """
    normal, nray, cutoff = _options(*more, **named)
    directions = np.asarray(vec, np.float64).reshape(-1, 3)
    count = len(directions) if nray is None else whole_number("nray", nray, 0)
    if count > len(directions):
        raise ValueError(f"vec must have {count} directions, got {len(directions)}")
    directions = directions[:count]
    distances = _output("dist", dist, count)
    geoms = None if geomid is None else _output("geomid", geomid, count)
    normals = None if normal is None else _output("normal", normal, 3 * count)
    origins = np.broadcast_to(np.asarray(pnt, np.float64).reshape(1, 3), directions.shape)
    # Lengths that neither over- nor underflow; rays without a direction miss.
    with np.errstate(all="ignore"):
        limits = cutoff / np.hypot(np.hypot(*directions.T[:2]), directions.T[2])
    t, geom, n = world.closest_hit(
        origins, directions, limits, groups=geomgroup, static=flg_static, exclude=bodyexclude,
        normals=normals is not None,
    )  # fmt: skip
    distances.flat[:count] = np.where(geom >= 0, t, -1.0)
    if geoms is not None:
        geoms.flat[:count] = geom
    if normals is not None:
        normals.flat[: 3 * count] = n


def _output(name: str, out: Any, size: int) -> NDArray[Any]:
    """Return the argument `name`, to whose first `size` numbers results are written, as an array.

    It may have any layout, and be of another library, if NumPy shares its memory.
    """
    array: NDArray[Any] = np.asarray(out)
    if isinstance(out, list | tuple) or np.ndim(out) == 0:
        raise TypeError(f"{name} must be an array, got {type(out).__name__}")
    if array.size < size:
        raise ValueError(f"{name} must have {size} numbers, got {array.size}")
    return array


def _tree_of(model: Any, number: int, kind: int, size: Reals) -> BVH:
    """Return the tree of geom `number` in its own frame; `size` has its half extents or radii."""
    if kind == BOX:
        return BVH.from_mesh(trimesh.creation.box(2.0 * size))
    data = int(model.geom_dataid[number])
    if kind == MESH:
        begin, first = model.mesh_vertadr[data], model.mesh_faceadr[data]
        vertices = model.mesh_vert[begin : begin + model.mesh_vertnum[data]]
        faces = model.mesh_face[first : first + model.mesh_facenum[data]]
        return BVH.from_triangles(vertices, faces)
    if kind == HFIELD:
        return _tree_of_heights(model, data)
    if kind == SPHERE:
        return BVH.from_spheres([[0.0, 0.0, 0.0]], size[0])
    if kind == CAPSULE:
        return BVH.from_capsules([[0.0, 0.0, -size[1]]], [[0.0, 0.0, size[1]]], size[0])
    if kind == ELLIPSOID:
        ball = trimesh.creation.icosphere(FINE)
        return BVH.from_mesh((ball.vertices * size, ball.faces))
    if kind == CYLINDER:
        return BVH.from_mesh(trimesh.creation.cylinder(size[0], 2.0 * size[1], sections=ROUND))
    raise TypeError(f"geom {number} has type {kind}, which rays do not support")


def _tree_of_heights(model: Any, field: int) -> BVH:
    """Return the tree of the height field `field`, an id, with the sides and bottom of its base."""
    rows, columns, begin = (
        int(a[field]) for a in (model.hfield_nrow, model.hfield_ncol, model.hfield_adr)
    )
    # Half extents along x and y, the height at which data is 1, and the depth of the base below 0.
    wide, long, high, base = model.hfield_size[field]
    z = high * model.hfield_data[begin : begin + rows * columns].reshape(rows, columns)
    x, y = np.linspace(-wide, wide, columns), np.linspace(-long, long, rows)
    top = BVH.from_heightfield(z, x, y)
    corner = np.arange(rows * columns).reshape(rows, columns)
    # Indices of the vertices of `top` around its border, counterclockwise from above; `low` has
    # those of the vertices below them, at the bottom of the base.
    edge = np.concatenate([corner[0], corner[1:, -1], corner[-1, -2::-1], corner[-2:0:-1, 0]])
    below = top.vertices[edge] * [1.0, 1.0, 0.0] - [0.0, 0.0, base]
    low = rows * columns + np.arange(len(edge))
    next_edge, next_low = np.roll(edge, -1), np.roll(low, -1)
    sides = [np.stack([edge, low, next_low], 1), np.stack([edge, next_low, next_edge], 1)]
    # The four corners of the bottom, counterclockwise from above; two triangles face downward.
    ends = low[[0, columns - 1, columns + rows - 2, 2 * columns + rows - 3]]
    floor = ends[[[0, 2, 1], [0, 3, 2]]]
    vertices = np.concatenate([top.vertices, below])
    return BVH.from_triangles(vertices, np.concatenate([top.faces, *sides, floor]))
