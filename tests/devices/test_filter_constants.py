"""Constants of the filters on devices: those of the CPU, or larger by a bound that is derived."""

from __future__ import annotations

from bvh.devices.stages import local_rays, points
from bvh.traversal.points import point_bounds
from bvh.traversal.rays import instanced_rays, ray_setup
from bvh.tree import triangle_groups


def test_filter_of_rays() -> None:
    """Equal constants, and bounds of triangles that cover the products that are not fused."""
    here, there = triangle_groups, local_rays
    assert there.UNIT == here.UNIT and there.TINY.value == here.TINY
    assert there.FILTER.value >= max(here.EDGE_ERROR, here.T_BOUND) + 2.1 * here.UNIT
    assert there.MARGIN.value == ray_setup.MARGIN and there.LENGTH_UP.value == ray_setup.UP
    assert there.FAR_ORIGIN.value == ray_setup.NEAR_ORIGIN
    assert there.STEEPEST.value == ray_setup.STEEPEST
    assert there.CLIP_MARGIN.value == ray_setup.CLIP_MARGIN
    assert there.WORST.value == instanced_rays.WORST


def test_bounds_of_points() -> None:
    assert points.BOX_ERROR.value == point_bounds.BOX_ERROR
    assert points.LEAF_ERROR.value == point_bounds.LEAF_ERROR
    assert points.UP.value == point_bounds.UP
