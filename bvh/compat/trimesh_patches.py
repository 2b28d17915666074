"""Our queries in the place of trimesh's own, and theirs back again."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, NamedTuple

import trimesh
from numpy.typing import ArrayLike

from bvh.compat import trimesh_points
from bvh.compat.trimesh_rays import Found, RayMeshIntersector, is_flag


class InsteadOfRtree(RayMeshIntersector):
    """What answers for `trimesh.ray.ray_triangle.RayMeshIntersector` while we are installed."""


class InsteadOfEmbree(RayMeshIntersector):
    """What answers for `trimesh.ray.ray_pyembree.RayMeshIntersector` while we are installed.

    As there, a ray that goes through an edge has one hit there whatever is asked for, and the
    arguments of `intersects_id` come in another order.
    """

    _one_hit_a_place = True

    def intersects_id(  # type: ignore[override]
        self,
        ray_origins: ArrayLike,
        ray_directions: ArrayLike,
        multiple_hits: Any = True,
        max_hits: Any = None,
        return_locations: Any = False,
        **kwargs: Any,
    ) -> Found:
        """Find the faces that rays hit; as in `RayMeshIntersector.intersects_id`."""
        if is_flag(max_hits):
            # A flag here is multiple_hits, in the order of the r-tree class.
            return self._hits(ray_origins, ray_directions, multiple_hits, max_hits, None)
        return self._hits(ray_origins, ray_directions, return_locations, multiple_hits, max_hits)


class Patch(NamedTuple):
    """An attribute of trimesh that was replaced, and what it was."""

    owner: Any
    name: str
    was: Any


class Installation:
    """That we are installed: as a context, until its end.

    Leaving the context changes nothing where we had been installed before it.
    """

    def __init__(self, ours: bool) -> None:
        self._ours = ours

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *error: object) -> None:
        if self._ours:
            uninstall()

    def __repr__(self) -> str:
        return f"Installation({'installed' if _patches else 'uninstalled'})"


METHODS = (
    "intersects_id", "intersects_location", "intersects_first", "intersects_any", "contains_points",
)  # fmt: skip

_lock = threading.RLock()
_patches: list[Patch] = []
# The classes of trimesh, and ours that stand in for them.
_stand_ins: dict[type, type[RayMeshIntersector]] = {}
# Ours, by the identity of their meshes, while somebody holds them.
_made: weakref.WeakValueDictionary[int, RayMeshIntersector] = weakref.WeakValueDictionary()


def install() -> Installation:
    """Make `mesh.ray` of all meshes ours, and the nearest points of `trimesh.proximity`.

    All that trimesh itself builds on them follows: `mesh.contains`, `mesh.nearest`, voxels,
    thickness, registration. It holds for meshes made before and after, and for both classes of
    `trimesh.ray`. Pickles and copies of meshes hold nothing of ours. Installing twice does no more
    than once. Functions that were taken out of trimesh before, by ``from trimesh.proximity import
    closest_point``, stay what they were, and so do subclasses of trimesh's two classes.

    Returns
    -------
    Installation
        A context manager that uninstalls at its end, for whoever wants that.

    Examples
    --------
    >>> import trimesh
    >>> import bvh.compat.trimesh
    >>> mesh = trimesh.creation.box()
    >>> with bvh.compat.trimesh.install():
    ...     isinstance(mesh.ray, bvh.compat.trimesh.RayMeshIntersector)
    True
    >>> isinstance(mesh.ray, bvh.compat.trimesh.RayMeshIntersector)
    False
    """
    with _lock:
        if _patches:
            return Installation(False)
        try:
            _replace_all(trimesh.ray)
        except BaseException:
            # All or nothing, should a version of trimesh have other names.
            uninstall()
            raise
    return Installation(True)


def uninstall() -> None:
    """Give trimesh back all that `install` replaced, also to meshes made meanwhile.

    Examples
    --------
    >>> import bvh.compat.trimesh
    >>> bvh.compat.trimesh.uninstall()
    """
    with _lock:
        while _patches:
            patch = _patches.pop()
            if patch.was is None:
                delattr(patch.owner, patch.name)
            else:
                setattr(patch.owner, patch.name, patch.was)
        _stand_ins.clear()


def _replace_all(casters: Any) -> None:
    """Replace all that `install` tells of; `casters` is `trimesh.ray`."""
    _stand_in(casters.ray_triangle.RayMeshIntersector, InsteadOfRtree)
    if casters.has_embree:
        _stand_in(casters.ray_pyembree.RayMeshIntersector, InsteadOfEmbree)
    _replace(casters.ray_util, "contains_points", _contains_points(casters.ray_util))
    _replace(trimesh.proximity, "closest_point", trimesh_points.closest_point)
    _replace(trimesh.proximity, "signed_distance", trimesh_points.signed_distance)
    _replace(trimesh.Trimesh, "ray", property(_ray, _set_ray, _delete_ray))


def _replace(owner: Any, name: str, ours: Any) -> None:
    """Put ours in the place of an attribute, and remember what it was."""
    _patches.append(Patch(owner, name, vars(owner).get(name)))
    setattr(owner, name, ours)


def _stand_in(theirs: type, ours: type[RayMeshIntersector]) -> None:
    """Let one of our classes answer what a class of trimesh is asked.

    Its name stays with the class, as whoever pickles a mesh finds the class by that.
    """
    _stand_ins[theirs] = ours
    for name in METHODS:
        _replace(theirs, name, _passed_on(name, getattr(theirs, name)))


def _passed_on(name: str, theirs: Any) -> Any:
    """Return a method of trimesh's class that asks what stands in for the object."""

    @functools.wraps(theirs)
    def method(caster: Any, *args: Any, **kwargs: Any) -> Any:
        ours = _ours(caster)
        if ours is caster:
            return theirs(caster, *args, **kwargs)
        return getattr(ours, name)(*args, **kwargs)

    return method


def _contains_points(module: Any) -> Any:
    """Return a `contains_points` that asks ours exactly, and the others as they were asked."""
    theirs = module.contains_points

    @functools.wraps(theirs)
    def contains_points(intersector: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(intersector, RayMeshIntersector):
            return theirs(intersector, *args, **kwargs)
        points = kwargs["points"] if "points" in kwargs else args[0]
        return intersector.contains_points(points)

    return contains_points


def _ray(mesh: Any) -> Any:
    """Return what stands in for a mesh's caster, or whatever else the mesh was given."""
    try:
        theirs = mesh.__dict__["ray"]
    except KeyError:
        raise AttributeError(f"{type(mesh).__name__!r} object has no attribute 'ray'") from None
    return _ours(theirs)


def _ours(theirs: Any) -> Any:
    """Return what stands in for a caster of trimesh, the same as long as somebody holds it.

    Whatever else a mesh was given stands for itself: also subclasses, whose methods of their own
    would not be asked, and the casters of trimesh once we are uninstalled, in whose name somebody
    may still call the methods that were ours.
    """
    ours = _stand_ins.get(type(theirs))
    if ours is None:
        return theirs
    mesh = theirs.mesh
    made = _made.get(id(mesh))
    if type(made) is not ours or made.mesh is not mesh:
        made = ours(mesh, getattr(theirs, "_scale_to_box", True))
        _made[id(mesh)] = made
    return made


def _set_ray(mesh: Any, value: Any) -> None:
    """Keep a mesh's caster; in the place of a stand-in, the one of trimesh that it stands for.

    So meshes keep nothing of ours when we are uninstalled, or when they are pickled.
    """
    for theirs, ours in tuple(_stand_ins.items()):
        if type(value) is ours:
            options = (value._scale_to_box,) if ours is InsteadOfEmbree else ()
            value = theirs(value.mesh, *options)
            break
    mesh.__dict__["ray"] = value


def _delete_ray(mesh: Any) -> None:
    del mesh.__dict__["ray"]
