"""Every answer against exact rational arithmetic, on families of hostile meshes and rays."""

from __future__ import annotations

import os

import numpy as np
import pytest

import bvh
from tests.cases.box_families import BOX_FAMILIES, build_boxes
from tests.cases.families import FAMILIES, Family, build
from tests.oracles import rays as oracle
from tests.oracles.confirmed import confirm, digest, is_confirmed

# Families keep their seed in ordinary runs; BVH_FUZZ_SEED varies them.
SEED = int(os.environ.get("BVH_FUZZ_SEED", "0")) % 2**32


def assert_exact(family: Family) -> None:
    """Compare a tree's answers with the oracle's, ray by ray."""
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    tree.validate()
    rays = family.origins, family.directions, family.t_min, family.t_max
    got = tree.closest_hit(*rays, cull=family.cull)
    assert np.array_equal(tree.any_hit(*rays, cull=family.cull), got.mask)
    question = family.vertices, family.faces, *rays, str(family.cull)
    case = digest("closest hits", *question, got.prim_id, got.t, got.front, got.u, got.v)
    if is_confirmed(case):
        return
    want = oracle.closest_hit(family.vertices, family.faces, *rays, cull=family.cull)
    assert np.array_equal(got.prim_id, want.prim_id)
    assert np.array_equal(got.t, want.t)
    assert np.array_equal(got.front, want.front)
    # Weights are good to a few units in the last place, and exactly 0 on the edge.
    for ours, true in ((got.u, want.u), (got.v, want.v)):
        assert np.array_equal(np.isnan(ours), np.isnan(true))
        hit = got.mask
        assert np.array_equal(ours[hit] == 0.0, true[hit] == 0.0)
        assert np.all(np.abs(ours - true)[hit] <= 4 * np.spacing(np.abs(true[hit])))
    confirm(case)


# Nearly all of its rays are decided exactly, against every copy of a face.
LONG = "without_area_repeated"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name == LONG else name for name in FAMILIES],
)
def test_triangles(name: str) -> None:
    """Same primitive, same t to the last bit, same side, in every family."""
    print(f"seed {SEED}")
    assert_exact(build(name, SEED))


@pytest.mark.parametrize(("name", "seed"), [("chaos_bits", 1027967213)])
def test_seeds_that_failed(name: str, seed: int) -> None:
    """A ray too far for the local frame meets a triangle too small for it."""
    assert_exact(build(name, seed))


@pytest.mark.parametrize("name", FAMILIES)
def test_triangles_one_by_one(name: str) -> None:
    """`ray_triangle` agrees with the tree: the nearest of all single tests is the closest hit."""
    family = build(name, SEED)
    if len(family.faces) == 0:
        return
    n = min(len(family.origins), 12)
    t_min, t_max = (
        np.broadcast_to(bound, len(family.origins))[:n, None]
        for bound in (family.t_min, family.t_max)
    )
    corners = [family.vertices[family.faces[:, i]] for i in range(3)]
    o, d = family.origins[:n, None], family.directions[:n, None]
    each = bvh.ray_triangle(o, d, *corners, t_min, t_max, cull=family.cull)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    hits = tree.closest_hit(o[:, 0], d[:, 0], t_min[:, 0], t_max[:, 0], cull=family.cull)
    assert np.array_equal(each.hit.any(axis=1), hits.mask)
    assert np.array_equal(each.t.min(axis=1), hits.t)
    # The first of equal minima is the lowest id.
    assert np.array_equal(each.t.argmin(axis=1)[hits.mask], hits.prim_id[hits.mask])


@pytest.mark.parametrize("name", BOX_FAMILIES)
def test_boxes(name: str) -> None:
    """Trees over boxes and `ray_box`: the same, against exact slabs."""
    print(f"seed {SEED}")
    family = build_boxes(name, SEED)
    n = len(family.origins)
    t_min, t_max = (np.broadcast_to(bound, n) for bound in (family.t_min, family.t_max))
    few = slice(None, 25)
    got = bvh.ray_box(
        family.origins[few, None], family.directions[few, None], family.lower, family.upper,
        t_min[few, None], t_max[few, None],
    )  # fmt: skip
    case = digest(
        "rays and boxes", family.origins, family.directions, family.lower, family.upper, t_min,
        t_max, got.hit, got.t_near, got.t_far,
    )  # fmt: skip
    for i in range(0 if is_confirmed(case) else len(got.hit)):
        for j, (lower, upper) in enumerate(zip(family.lower, family.upper, strict=True)):
            rays = family.origins[i].tolist(), family.directions[i].tolist()
            box = lower.tolist(), upper.tolist()
            want = oracle.ray_box(*rays, *box, float(t_min[i]), float(t_max[i]))
            assert got.hit[i, j] == want[0]
            ends = (got.t_near[i, j], got.t_far[i, j])
            assert ends == (want[1:] if want[0] else (np.inf, -np.inf))
    confirm(case)
    if family.ray_box_only:
        return
    tree = bvh.BVH.from_boxes(family.lower, family.upper)
    tree.validate()
    rays = family.origins, family.directions, t_min, t_max
    hits = tree.closest_hit(*rays)
    assert np.isnan(hits.u).all() and np.isnan(hits.v).all()
    assert np.array_equal(tree.any_hit(*rays), hits.mask)
    question = family.lower, family.upper, *rays
    case = digest("closest boxes", *question, hits.prim_id, hits.t, hits.front)
    if not is_confirmed(case):
        true = oracle.closest_hit_boxes(*question)
        assert np.array_equal(hits.prim_id, true.prim_id)
        assert np.array_equal(hits.t, true.t)
        assert np.array_equal(hits.front, true.front)
        confirm(case)


def test_there_are_enough_families() -> None:
    """The promise is made for at least sixty kinds of trouble."""
    assert len(FAMILIES) >= 60
    assert len(BOX_FAMILIES) >= 20
