"""Checks that all queries of a mesh in parts equal those of one tree, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import bvh
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import Family

HITS = ("t", "u", "v", "front", "prim_id")
LISTS = (*HITS, "offsets", "shape")
POINTS = ("distance", "position", "u", "v", "prim_id")
OVERLAPS = ("prim_id", "offsets", "shape")

Given = dict[str, Any]


def same(found: Any, wanted: Any, names: tuple[str, ...] = ()) -> None:
    """Check that two results, or their fields, are equal bit for bit, NaN being equal to NaN."""
    for name in names or ("",):
        a, b = (getattr(r, name) if name else r for r in (found, wanted))
        assert np.shape(a) == np.shape(b), name
        assert type(a) is type(b) or isinstance(a, np.ndarray) or np.ndim(a) == 0, name
        assert name == "prim_id" or np.asarray(a).dtype == np.asarray(b).dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
        if np.asarray(a).dtype.kind == "f":
            real = ~np.isnan(np.asarray(b))
            signs = (np.signbit(np.asarray(x)[real]) for x in (a, b))
            np.testing.assert_array_equal(*signs, err_msg=f"sign of {name}")


def ask(target: Any, verb: str, arrays: Given, lazily: bool, **options: Any) -> Any:
    """Ask NumPy arrays; or Dask arrays, those with leading axes cut into two chunks."""
    if not lazily:
        return getattr(target, verb)(**arrays, **options)
    import dask
    import dask.array as da

    chunked = {
        name: da.from_array(a, (max(-(-len(a) // 2), 1), *a.shape[1:]))
        for name, a in ((name, np.asarray(given)) for name, given in arrays.items())
        if np.ndim(a) > (name in ("origins", "directions", "points"))
    }
    found = getattr(target, verb)(**(arrays | chunked), **options)
    with dask.config.set(scheduler="sync"):
        return found.compute() if hasattr(found, "compute") else dask.compute(found)[0]


def check_rays(parts: Parts, tree: bvh.BVH, rays: Given, lazily: bool = False, **cull: Any) -> None:
    """Check all queries of rays."""

    def check(verb: str, names: tuple[str, ...] = (), **options: Any) -> None:
        found = ask(parts, verb, rays, lazily, **options)
        same(found, getattr(tree, verb)(**rays, **options), names)

    check("closest_hit", HITS, **cull)
    check("any_hit", **cull)
    for edges, limit in (("once", 1), ("closed", 3)):
        check("count_hits", edges=edges, **cull)
        check("all_hits", LISTS, edges=edges, max_hits=limit, **cull)
    check("all_hits", LISTS, **cull)


def check_points(
    parts: Parts, tree: bvh.BVH, points: Any, rng: np.random.Generator, lazily: bool = False,
    **mask: Any,
) -> None:  # fmt: skip
    """Check all queries of points, without and with limits."""
    span = np.nan_to_num(np.ptp(tree.bounds / 2, axis=0).max(), posinf=1e300)
    limits = rng.uniform(0.0, span, len(points)) ** rng.uniform(0.3, 1.0, len(points))
    limits[::7], limits[3::11], limits[5::13] = 0.0, -1.0, np.nan
    for limit in (np.inf, limits):
        given = {"points": points, "max_distance": limit}
        for k in (None, 3):
            found = ask(parts, "closest_point", given, lazily, k=k, **mask)
            same(found, tree.closest_point(**given, k=k, **mask), POINTS)
        same(ask(parts, "distance", given, lazily, **mask), tree.distance(**given, **mask))
    for verb in ("contains", "signed_distance"):
        found = ask(parts, verb, {"points": points}, lazily, **mask)
        same(found, getattr(tree, verb)(points, **mask))


def check_regions(
    parts: Parts, tree: bvh.BVH, points: Any, rng: np.random.Generator, lazily: bool = False,
    **mask: Any,
) -> None:  # fmt: skip
    """Check all queries of regions, some of which touch vertices."""
    points = points[rng.permutation(len(points))[:20]]
    span = np.nan_to_num(np.ptp(tree.bounds / 8, axis=0))
    lower, upper = (
        points.copy(),
        points + span * rng.choice([0.0, 0.8, 4.0, -0.8], (len(points), 1)),
    )
    lower[::9], upper[4::9] = -np.inf, np.inf
    radii = span.max() * rng.choice([0.0, 0.4, 2.0, 8.0, -1.0], len(points))
    radii[3::11], radii[7::11] = np.nan, np.inf
    planes = np.empty((len(points), 3, 4))
    planes[..., :3] = rng.integers(-2, 3, (len(points), 3, 3))
    with np.errstate(all="ignore"):
        planes[..., 3] = -(planes[..., :3] @ points[:, :, None])[..., 0]
    for verb, arrays in (
        ("overlap_box", {"lower": lower, "upper": upper}),
        ("overlap_sphere", {"center": points, "radius": radii}),
        ("overlap_frustum", {"planes": planes}),
        ("overlap_frustum", {"planes": planes[:, :0]}),
    ):
        if verb == "overlap_frustum" and not np.abs(tree.bounds).max() < 1e150:
            # Beyond what is promised, products overflow: what is found depends on the tree.
            continue
        if lazily and arrays.get("planes", planes).shape[1] == 0:
            continue
        found = ask(parts, verb, arrays, lazily, **mask)
        same(found, getattr(tree, verb)(**arrays, **mask), OVERLAPS)


def check_family(family: Family, parts: Parts, rng: np.random.Generator, lazily: bool) -> None:
    """Check all queries with the rays of a family."""
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    rays = {
        "origins": family.origins, "directions": family.directions,
        "t_min": family.t_min, "t_max": family.t_max,
    }  # fmt: skip
    check_rays(parts, tree, rays, lazily, cull=family.cull)
    with np.errstate(all="ignore"):
        middles = family.vertices[family.faces].mean(axis=1)
    points = np.concatenate([family.origins, family.vertices, middles])
    check_points(parts, tree, points[rng.permutation(len(points))[:200]], rng, lazily)
    check_regions(parts, tree, points, rng, lazily)
