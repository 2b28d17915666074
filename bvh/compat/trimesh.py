"""Drop-in replacements for rays, nearest points and collisions of trimesh.

`install` replaces rays and nearest points in all meshes; `RayMeshIntersector` and `ProximityQuery`
replace `ray` and `nearest` of one mesh. `CollisionManager` replaces that of `trimesh.collision`.
"""

import contextlib
import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any, get_args

import trimesh
from numpy.typing import ArrayLike

from bvh.compat.collisions.contacts import ContactData, DistanceData
from bvh.compat.collisions.trimesh_collisions import CollisionManager, scene_to_collision
from bvh.compat.trimesh_points import (
    OpenRule,
    ProximityQuery,
    Rules,
    closest_point,
    contains,
    signed_distance,
)
from bvh.compat.trimesh_rays import Flag, Found, RayMeshIntersector, is_flag
from bvh.runtime.arguments import check_option

__all__ = [
    "CollisionManager", "ContactData", "DistanceData", "ProximityQuery", "RayMeshIntersector",
    "closest_point", "contains", "install", "scene_to_collision",
    "signed_distance", "uninstall",
]  # fmt: skip
__dir__ = __all__.copy


class InsteadOfRtree(RayMeshIntersector):
    """Replacement of `trimesh.ray.ray_triangle.RayMeshIntersector` while installed."""


class InsteadOfEmbree(RayMeshIntersector):
    """Replacement of `trimesh.ray.ray_pyembree.RayMeshIntersector` while installed.

    As in that class, a ray through an edge always has one hit there, and the arguments of
    `intersects_id` are in another order.
    """

    _one_hit_a_point = True

    def intersects_id(  # type: ignore[override]
        self, ray_origins: ArrayLike, ray_directions: ArrayLike, multiple_hits: Flag = True,
        max_hits: Flag = None, return_locations: Flag = False, **kwargs: object,
    ) -> Found:  # fmt: skip
        """Find the faces that rays hit; as in `RayMeshIntersector.intersects_id`."""
        if is_flag(max_hits):
            # The order of the r-tree class, (return_locations, multiple_hits), without a limit.
            locate, multiple = multiple_hits, max_hits
            return self._hits(ray_origins, ray_directions, locate, multiple, limit=None)
        return self._hits(ray_origins, ray_directions, return_locations, multiple_hits, max_hits)


METHODS = (
    "intersects_id", "intersects_location", "intersects_first", "intersects_any", "contains_points",
)  # fmt: skip

Method = Callable[..., object]

_lock = threading.RLock()
# Attributes of trimesh that were replaced: owner, name, old value; None if it had none of its own.
_patches: list[tuple[object, str, object]] = []
# The replacement of each class of trimesh.
_classes: dict[type, type[RayMeshIntersector]] = {}
# Replacements of casters by id() of their meshes, while they are referenced.
_casters: weakref.WeakValueDictionary[int, RayMeshIntersector] = weakref.WeakValueDictionary()


def install(contains: OpenRule | None = None) -> contextlib.ExitStack:
    """Replace `mesh.ray` of all meshes, and the nearest points of `trimesh.proximity`.

    Everything that trimesh builds on them follows: `mesh.contains`, `mesh.nearest`, voxels,
    thickness, registration. It applies to existing and new meshes, and to both classes of
    `trimesh.ray`. Pickles and copies of meshes contain none of our objects. A second call only
    changes the rule for open meshes. Functions that were imported from trimesh before, by ``from
    trimesh.proximity import closest_point``, are not replaced, nor are subclasses of trimesh's two
    classes. Returns a context manager that restores at its end what was before; of blocks that
    overlap in threads, the first that began uninstalls at its end.

    Parameters
    ----------
    contains : {"rays", "winding"}, optional
        How to decide containment in meshes that are not watertight: see
        `bvh.compat.trimesh.contains`. None keeps the rule; at first it is "rays".

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> mesh = trimesh.creation.box()
    >>> with bvh.compat.trimesh.install():
    ...     isinstance(mesh.ray, bvh.compat.trimesh.RayMeshIntersector)
    True
    >>> isinstance(mesh.ray, bvh.compat.trimesh.RayMeshIntersector)
    False
    """
    if contains is not None:
        check_option("contains", contains, get_args(OpenRule))
    with _lock, contextlib.ExitStack() as undo:
        undo.callback(setattr, Rules, "opened", Rules.opened)
        if not _patches:
            # All or nothing, in case a version of trimesh has other names.
            undo.callback(uninstall)
            _replace_all()
        Rules.opened = contains or Rules.opened
        return undo.pop_all()


def uninstall() -> None:
    """Undo `install`, also for meshes that were created since.

    Examples
    --------
    >>> import bvh.compat.trimesh
    >>> bvh.compat.trimesh.uninstall()
    """
    with _lock:
        Rules.opened = "rays"
        while _patches:
            owner, name, was = _patches.pop()
            if was is None:
                delattr(owner, name)
            else:
                setattr(owner, name, was)
        _classes.clear()


def _replace_all() -> None:
    """Replace all attributes of trimesh that `install` replaces, and list them in `_patches`."""
    casters: Any = trimesh.ray
    # The classes themselves stay, because pickles of meshes refer to them by name.
    _classes[casters.ray_triangle.RayMeshIntersector] = InsteadOfRtree
    if casters.has_embree:
        _classes[casters.ray_pyembree.RayMeshIntersector] = InsteadOfEmbree
    for kind, name in itertools.product(_classes, METHODS):
        _replace(kind, name, _forwarding(name, getattr(kind, name)))
    util = casters.ray_util
    _replace(util, "contains_points", _contains_points(util.contains_points))
    _replace(trimesh.proximity, "closest_point", closest_point)
    _replace(trimesh.proximity, "signed_distance", signed_distance)
    _replace(trimesh.Trimesh, "ray", property(_ray, _set_ray, lambda mesh: vars(mesh).pop("ray")))


def _replace(owner: object, name: str, new: object) -> None:
    """Set the attribute `name` of a class or module to `new`; note the old value in `_patches`."""
    _patches.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, new)


def _forwarding(name: str, original: Method) -> Method:
    """Return a method to take the place of `original`, the method `name` of a caster of trimesh.

    It calls the method of the caster's replacement, if it has one.
    """

    @functools.wraps(original)
    def method(caster: object, *args: object, **kwargs: object) -> object:
        replacement = _replacement(caster)
        if replacement is caster:
            return original(caster, *args, **kwargs)
        return getattr(replacement, name)(*args, **kwargs)

    return method


def _contains_points(original: Method) -> Method:
    """Return a `contains_points` that is exact for replaced casters, and unchanged for others."""

    @functools.wraps(original)
    def contains_points(intersector: object, *args: Any, **kwargs: Any) -> object:
        if not isinstance(intersector, RayMeshIntersector):
            return original(intersector, *args, **kwargs)
        return intersector.contains_points(kwargs["points"] if "points" in kwargs else args[0])

    return contains_points


def _ray(mesh: trimesh.Trimesh) -> object:
    """Get `mesh.ray`: the replacement of the mesh's caster, or any other value that was set."""
    if "ray" not in mesh.__dict__:
        raise AttributeError(f"{type(mesh).__name__!r} object has no attribute 'ray'")
    return _replacement(mesh.__dict__["ray"])


def _replacement(caster: Any) -> object:
    """Return the replacement of a caster of trimesh, the same object while it is referenced."""
    # Any other value is returned unchanged: also subclasses, whose methods would not be called,
    # and casters of trimesh after `uninstall`, whose replaced methods may still be referenced.
    kind = _classes.get(type(caster))
    if kind is None:
        return caster
    mesh = caster.mesh
    result = _casters.get(id(mesh))
    if type(result) is not kind or result.mesh is not mesh:
        result = _casters[id(mesh)] = kind(mesh, getattr(caster, "_scale_to_box", True))
    return result


def _set_ray(mesh: trimesh.Trimesh, value: object) -> None:
    """Set `mesh.ray`; a replacement is stored as a caster of the trimesh class that it replaces."""
    # Meshes thus contain no objects of this package, neither in pickles nor after `uninstall`;
    # `_ray` finds the replacement again.
    for original, kind in tuple(_classes.items()):
        if isinstance(value, RayMeshIntersector) and type(value) is kind:
            # Only the Embree class takes `scale_to_box`.
            options = (value._scale_to_box,) if kind is InsteadOfEmbree else ()
            value = original(value.mesh, *options)
            break
    mesh.__dict__["ray"] = value
