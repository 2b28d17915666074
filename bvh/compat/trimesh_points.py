"""Trees of trimesh meshes, and point queries with the interface of `trimesh.proximity`."""

import weakref
from typing import Literal, get_args

import numpy as np
import trimesh
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH
from bvh.queries.methods.point_queries import warn_if_open
from bvh.runtime.arguments import check_option, rows

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# Distances are equal if they differ by at most this share of them, and points are on the surface if
# they are within this distance of it. Both are tol.merge of trimesh.
MERGE = 1e-8

# How many nearest faces are compared in case of ties, at first and at most; points at a time.
FEW, MANY, CHUNK = 8, 512, 1 << 16

# Direction of the first ray that tests containment in an open mesh, as in trimesh.
DIRECTION = np.array([0.4395064455, 0.617598629942, 0.652231566745])

# Follows "has open edges: " in a warning.
GUESS = (
    "containment is a guess, by two opposite rays and the winding number (one warning for a mesh); "
    "the winding number alone is more often right: install(contains='winding'), or BVH.contains "
    "with method='winding'"
)

# How to decide containment in meshes that are not watertight.
OpenRule = Literal["rays", "winding"]
# Accuracy of winding numbers of meshes with many open edges.
ACCURACY = 2.0


class Rules:
    """Settings of this process, made by `install`."""

    opened: OpenRule = "rays"


# Meshes, with their hashes and trees, by id(): hashes change, and pickles and copies of meshes must
# not contain trees.
_followed: dict[int, tuple[weakref.ref[trimesh.Trimesh], int, BVH]] = {}


def tree_of(mesh: trimesh.Trimesh) -> BVH:
    """Return the tree over the current faces of a mesh, built anew if its hash has changed."""
    key, entry = id(mesh), _followed.get(id(mesh))
    # Trimesh caches the hash of its arrays until one may have changed: this takes a microsecond.
    if entry is None or entry[0]() is not mesh or entry[1] != hash(mesh):
        # Hashes of other types may not change with their content.
        if not isinstance(mesh, trimesh.Trimesh):
            raise TypeError(f"mesh must be a trimesh.Trimesh, got {type(mesh).__name__}")
        stamp = hash(mesh)
        # Slices and copies of tracked arrays would discard their cached hash, views do not.
        vertices, faces = mesh.vertices.view(np.ndarray), mesh.faces.view(np.ndarray)
        tree = BVH.from_triangles(vertices.reshape(-1, 3), faces.reshape(-1, 3))
        entry = weakref.ref(mesh, lambda _: _followed.pop(key, None)), stamp, tree
        _followed[key] = entry
    return entry[2]


def closest_point(mesh: trimesh.Trimesh, points: ArrayLike) -> tuple[Floats, Floats, Ids]:
    """Find the nearest point of a mesh for each point: (closest, distance, triangle_id).

    As in trimesh, of faces whose distances are equal to 1e-8 of them, the result is the face that
    faces the point most; of equal ones, the lowest. All such faces are compared, of which trimesh
    compares two, so ids may differ. `BVH.closest_point` has no such tolerance. For
    points that are not finite the results are NaN, NaN and -1; without faces NaN, +inf and -1.

    Arguments of the wrong shape or type raise a ValueError or TypeError that names them.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import closest_point
    >>> closest_point(trimesh.creation.box(), [[0.0, 0.25, 2.0]])[:2]
    (array([[0.  , 0.25, 0.5 ]]), array([1.5]))
    """
    points = rows("points", points)
    tree = tree_of(mesh)
    near = tree.closest_point(points, k=2)
    closest, distance = near.position[:, 0].copy(), near.distance[:, 0].copy()
    face = near.prim_id[:, 0].astype(np.int64)
    with np.errstate(invalid="ignore"):
        equal = near.distance[:, 1] - distance <= MERGE * distance
    # At distance 0 there is no direction to the point.
    tied = np.flatnonzero(equal & (distance > 0.0))
    for begin in range(0, len(tied), CHUNK):
        some = tied[begin : begin + CHUNK]
        closest[some], distance[some], face[some] = _nearest_facing(tree, points[some])
    distance[~np.isfinite(points).all(axis=1)] = np.nan
    return closest, distance, face


def signed_distance(mesh: trimesh.Trimesh, points: ArrayLike) -> Floats:
    """Return the distance of each point from the surface, positive inside, as in trimesh.

    In a watertight mesh the sign is that of `contains`, whatever its winding. In an open mesh the
    side of the nearest face decides, as in trimesh for all meshes, if the point projects into that
    face; elsewhere, and everywhere after ``install(contains="winding")``, `contains` does, with its
    `BVHWarning`. The distance is positive within 1e-8 of the surface, NaN for points that are not
    finite, and -inf where the mesh has no faces. Errors are those of `closest_point`.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import signed_distance
    >>> signed_distance(trimesh.creation.box(), [[0.0, 0.0, 0.25], [0.0, 0.0, 1.5]])
    array([ 0.25, -1.  ])
    """
    points = rows("points", points)
    tree = tree_of(mesh)
    if mesh.is_watertight:
        distance: Floats = -tree.signed_distance(points)
    else:
        distance = _signed_by_faces(mesh, tree, points)
    near = np.abs(distance) <= MERGE
    distance[near] = np.abs(distance[near])
    distance[~np.isfinite(points).all(axis=1)] = np.nan
    return distance


def contains(
    mesh: trimesh.Trimesh, points: ArrayLike, *, opened: OpenRule | None = None
) -> NDArray[np.bool_]:
    """Return which points are inside a mesh.

    Exact for watertight meshes, whatever their winding: a point is inside if it is on the surface,
    or if a ray from it crosses an odd number of faces. So the intersection of an even number of
    bodies is outside; trimesh agrees, except for coincident bodies, which it takes for one.

    In an open mesh, `opened` is the rule. "rays", as in trimesh: a point is inside if two
    opposite rays both cross an odd number of faces; if they disagree and both cross some, the
    winding number decides: a guess, with one `BVHWarning` for each mesh. "winding": the winding
    number alone, above a half, which is right wherever holes are small. By default the rule given
    to `install`, or "rays".

    True on the surface of a watertight mesh, False for points that are not finite; `mesh`, `points`
    and errors as in `closest_point`.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import contains
    >>> contains(trimesh.creation.box(), [[0.5, 0.5, 0.5], [0.5, 0.5, 0.6]])
    array([ True, False])
    """
    points = rows("points", points)
    tree = tree_of(mesh)
    if mesh.is_watertight:
        return np.asarray(tree.contains(points))
    rule = Rules.opened if opened is None else opened
    check_option("opened", rule, get_args(OpenRule))
    if rule == "winding":
        # The normals of an open mesh may point either way.
        return np.asarray(np.abs(tree.winding_number(points, ACCURACY)) > 0.5)
    warn_if_open(tree, mask=None, query="contains", consequence=GUESS)
    result = np.zeros(len(points), np.bool_)
    lower, upper = tree.bounds
    in_box = np.flatnonzero(((lower <= points) & (points <= upper)).all(axis=1))
    some = points[in_box]
    # Inside: two opposite rays both cross odd numbers of faces. Unclear: one crosses an odd number,
    # the other an even one, but not 0.
    ahead, behind = (np.asarray(tree.count_hits(some, d)) for d in (DIRECTION, -DIRECTION))
    result[in_box] = (ahead & behind & 1) == 1
    unclear = in_box[((ahead ^ behind) & 1 == 1) & (ahead > 0) & (behind > 0)]
    result[unclear] = np.abs(tree.winding_number(points[unclear], ACCURACY)) > 0.5
    return result


class ProximityQuery:
    """Point queries of a `trimesh.Trimesh`: a drop-in replacement for `mesh.nearest`.

    Examples
    --------
    >>> import trimesh
    >>> from bvh.compat.trimesh import ProximityQuery
    >>> mesh = trimesh.creation.box()
    >>> mesh.nearest = ProximityQuery(mesh)
    >>> mesh.nearest.signed_distance([[0.0, 0.0, 0.25]])
    array([0.25])
    >>> mesh.nearest.on_surface([[0.25, 0.125, 2.0]])[1], mesh.nearest.vertex([[0.5, 0.5, 2.0]])[0]
    (array([1.5]), array([1.5]))
    """

    def __init__(self, mesh: trimesh.Trimesh) -> None:
        self._mesh = mesh

    def __repr__(self) -> str:
        return f"ProximityQuery({self._mesh!r})"

    def on_surface(self, points: ArrayLike) -> tuple[Floats, Floats, Ids]:
        """Find each point's nearest point of the mesh: (closest, distance, triangle_id)."""
        return closest_point(self._mesh, points)

    def vertex(self, points: ArrayLike) -> tuple[Floats, Ids]:
        """Find the nearest vertex for each point by trimesh's own k-d tree: (distance, vertex)."""
        results: tuple[Floats, Ids] = self._mesh.kdtree.query(points)
        return results

    def signed_distance(self, points: ArrayLike) -> Floats:
        """Return the distance of each point from the surface, positive inside."""
        return signed_distance(self._mesh, points)


def _nearest_facing(
    tree: BVH, points: Floats, count: int = FEW
) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Return position, distance and id of each point's nearest face.

    Of faces at equal distance, it is the one that faces the point most: whose normal is nearest to
    the direction to the point. The `count` nearest faces are compared; more, up to MANY, if these
    are all equally near.
    """
    near = tree.closest_point(points, k=count)
    nearest = near.distance[:, :1]
    equal = near.distance <= nearest + MERGE * nearest
    with np.errstate(invalid="ignore", divide="ignore"):
        away = (points[:, None] - near.position) / near.distance[..., None]
        normals = normals_of(tree.vertices[tree.faces[near.prim_id]])
        cosine = np.einsum("nki,nki->nk", normals, away)
    # -2, below all cosines, so that no farther face, and none without a normal, is chosen.
    cosine = np.where(equal & np.isfinite(cosine), cosine, -2.0)
    # The cosines of coplanar faces differ by rounding, less than 1e-12; take the lowest face.
    best = np.argmax(cosine >= cosine.max(axis=1, keepdims=True) - 1e-12, axis=1)
    chosen = np.arange(len(points)), best
    results = near.position[chosen], near.distance[chosen], near.prim_id[chosen]
    # If all `count` faces are equally near, there may be more of them.
    more = np.flatnonzero(equal[:, -1])
    if len(more) and count < MANY:
        for old, new in zip(results, _nearest_facing(tree, points[more], 8 * count), strict=True):
            old[more] = new
    return results


def _signed_by_faces(mesh: trimesh.Trimesh, tree: BVH, points: Floats) -> Floats:
    """Return distances, positive inside, with the sign that `signed_distance` documents."""
    closest, distance, face = closest_point(mesh, points)
    if len(tree.faces) == 0:
        return -distance
    normal = normals_of(tree.vertices[tree.faces[face]])
    with np.errstate(invalid="ignore"):
        away = points - closest
        height = np.einsum("ni,ni->n", normal, away)
        aside = np.linalg.norm(away - height[:, None] * normal, axis=1)
        # The tolerance that trimesh has for barycentric weights, relative to the size of the face.
        a, b = tree.vertices[tree.faces[face, :2].T]
        straight = aside <= MERGE * (np.abs(height) + np.linalg.norm(b - a, axis=-1))
    sign = np.where(height > 0.0, -1.0, 1.0)
    other = np.flatnonzero(~straight | (Rules.opened == "winding"))
    if len(other):
        sign[other] = np.where(contains(mesh, points[other]), 1.0, -1.0)
    return distance * sign
