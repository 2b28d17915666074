"""The repr of results, trees and scenes: short, true, one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Camera, Scene
from bvh.runtime.arguments import number_of

CORNERS = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [4, 4, 0]], float)
TREE = BVH.from_triangles(CORNERS, [[0, 1, 2], [1, 3, 2]])
ORIGINS, DOWN = np.array([[[1, 1, 5], [9, 9, 9]], [[3, 3, 5], [1, 1, 7]]], float), [0, 0, -1]
LOOK = Camera.look_at([2, 2, 9], [2, 2, 0], [0, 1, 0], width=64, height=48)


def scene() -> Scene:
    """Return three instances, two of them out of the ordinary."""
    made, matrix = Scene(), np.diag([2.0, 1.0, 1.0, 1.0])
    made.add(TREE, name="floor")
    matrix[:3, 3] = -10, 0, 3
    made.add(TREE, matrix, mask=0xFF)
    made.set_visible(made.add(TREE, name="ghost"), False)
    return made


SCENE = scene()
MOVED = "BVH(2 triangles, 1 node), transformed, at [-10, 0, 3]"

TOLD: dict[str, tuple[Callable[[], Any], str]] = {
    "tree": (lambda: TREE, "BVH(2 triangles, 1 node)"),
    "scene": (lambda: SCENE, "Scene(3 instances, 3 leaves, 1 tree)"),
    "hit": (
        lambda: TREE.closest_hit([1, 1, 5], DOWN),
        "Hits(t=5.0, prim_id=0, u=0.25, v=0.25, front=True)",
    ),
    "hits": (lambda: TREE.closest_hit(ORIGINS, DOWN), "Hits(3 of 2 x 2 rays hit, t 5 to 7)"),
    "row": (lambda: TREE.closest_hit(ORIGINS[0], DOWN), "Hits(1 of 2 rays hit, t 5 to 5)"),
    "misses": (lambda: TREE.closest_hit(ORIGINS[0, 1:], DOWN), "Hits(0 of 1 ray hit)"),
    "no rays": (lambda: TREE.closest_hit(ORIGINS[:0], DOWN), "Hits(0 of 0 x 2 rays hit)"),
    "scene hit": (
        lambda: SCENE.closest_hit([1.0, 1.0, 5.0], [0.0, 0.0, -1.0]),
        "Hits(t=5.0, prim_id=0, u=0.25, v=0.25, front=True, instance_id=0, leaf=0)",
    ),
    "scene hits": (
        lambda: SCENE.closest_hit([*ORIGINS[0], [-9, 1, 9]], DOWN),
        "Hits(2 of 3 rays hit 2 instances, t 5 to 6)",
    ),
    "counted": (
        lambda: TREE.closest_hit(ORIGINS[1], DOWN, counters=True),
        "Hits(2 of 2 rays hit, t 5 to 7, 1 node and 2 tests a ray)",
    ),
    "counted none": (
        lambda: TREE.closest_hit(ORIGINS[:0], DOWN, counters=True),
        "Hits(0 of 0 x 2 rays hit)",
    ),
    "all hits": (lambda: TREE.all_hits(ORIGINS, DOWN), "AllHits(3 hits of 4 rays)"),
    "one hit": (lambda: TREE.all_hits(ORIGINS[0, :1], DOWN), "AllHits(1 hit of 1 ray)"),
    "one query": (
        lambda: TREE.overlap_sphere([[1.0, 1.0, 0.0]], 0.1),
        "Overlaps(1 of 1 query meets 1 primitive)",
    ),
    "attributes": (lambda: SCENE.attributes(TREE), "Attributes(none)"),
    "known": (lambda: bvh.Attributes(uv=np.zeros((4, 2))), "Attributes(uv of 4 vertices)"),
    "instance": (lambda: SCENE[0], "Instance(0 'floor', BVH(2 triangles, 1 node))"),
    "moved": (lambda: SCENE[1], f"Instance(1, {MOVED}, mask 0xff)"),
    "hidden": (lambda: SCENE[2], "Instance(2 'ghost', BVH(2 triangles, 1 node), hidden)"),
    "leaves": (lambda: SCENE.leaves, "Leaves(3 leaves of 1 tree)"),
    "leaf": (lambda: SCENE.leaves[1], f"Leaf(1, {MOVED}, mask 0xff)"),
    "selection": (lambda: SCENE.pick_rect(LOOK, 0, 0, 64, 48), "Selection(2 faces of 1 instance)"),
    "stats": (TREE.stats, "TreeStats(2 primitives, 1 node, depth 1, SAH cost 2, 0.00 MiB)"),
    "scene stats": (
        SCENE.stats,
        "SceneStats(3 instances of 1 tree, 6 primitives, 4 shown, 2 stored, depth 2, 0.00 MiB)",
    ),
    "caster": (lambda: TREE.caster(), "<built-in method cast of RayCaster object at "),
    "scene caster": (lambda: SCENE.caster(), "<function cast of Scene at "),
    "picker": (lambda: SCENE.picker(LOOK), "<function pick of 64 x 48 pixels at "),
    "picture": (
        lambda: bvh.pictures.Picture(np.zeros((3, 4, 3), np.uint8), 12, 0.5, "id", {"uv": LOOK}),
        "Picture(4 x 3 pixels of id, 12 rays in 0.5 s, data of uv)",
    ),
}


CAMERAS: dict[str, tuple[Callable[[], Any], str]] = {
    "camera": (lambda: LOOK, "Camera(64 x 48 pixels, eye [2, 2, 9], forward [0, 0, -1], fov_y 45)"),
    "parallel": (
        lambda: Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, near=-1.0, far=5.0),
        "Camera(800 x 600 pixels, eye [0, 0, 9], forward [0, 0, -1], parallel rays, "
        "view_height 4, near -1, far 5)",
    ),
    "screen": (
        lambda: Camera.look_at([0, 0, 9], [0, 0, 0], [0, 1, 0], y="up", pixel_ratio=2.0),
        "Camera(800 x 600 pixels, eye [0, 0, 9], forward [0, 0, -1], fov_y 45, y up, "
        "pixel_ratio 2)",
    ),
    "off centre": (
        lambda: Camera.from_opencv([[80, 0, 20], [0, 80, 30], [0, 0, 1]], np.eye(4), 80, 60),
        "off centre, around [20.5, 30.5]",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_reprs(name: str) -> None:
    """In one short line, and exactly this where it is all."""
    make, wanted = TOLD[name]
    told = repr(make())
    assert "\n" not in told and len(told) < 160
    assert (told == wanted) if wanted.endswith(")") else (wanted in told), told


@pytest.mark.parametrize("name", CAMERAS)
def test_cameras(name: str) -> None:
    """`str` says all; `repr` fits a line, and leaves out what is last."""
    make, wanted = CAMERAS[name]
    told, short = str(make()), repr(make())
    assert "\n" not in told and len(told) < 160
    assert (told == wanted) if wanted.endswith(")") else (wanted in told), told
    assert len(short) <= 100
    assert short == told or (short.endswith(", ...)") and told.startswith(short[:-6]))


def test_closest_points() -> None:
    """By their shape, too."""
    near = TREE.closest_point(ORIGINS)
    assert repr(near).startswith("ClosestPoints(4 of 2 x 2 found, distance 5 to ")
    assert repr(TREE.closest_point([1, 1, 5])).startswith("ClosestPoints(distance=5.0, ")


@pytest.mark.parametrize(
    ("noun", "one"),
    [
        ("rays hit", "1 ray hit"), ("boxes", "1 box"), ("leaves", "1 leaf"), ("obbs", "1 obb"),
        ("custom", "1 custom"), ("vertices", "1 vertex"), ("pairs of faces", "1 pair of faces"),
        ("trees", "1 tree"), ("meshes", "1 mesh"), ("queries", "1 query"), ("found", "1 found"),
        ("geometries", "1 geometry"), ("edges", "1 edge"),
    ],
)  # fmt: skip
def test_nouns_are_those_of_their_numbers(noun: str, one: str) -> None:
    """Singular for what is written as 1, whatever is behind it."""
    assert number_of(1, noun) == number_of(np.int64(1), noun) == number_of("1", noun) == one
    assert number_of(1.00004, noun, ".4g") == one
    assert number_of(1.25, noun, ".4g") == f"1.25 {noun}"
    assert (
        number_of(0, noun) == f"0 {noun}"
        and number_of(1234, noun, ",") == f"1\N{NO-BREAK SPACE}234 {noun}"
    )
    assert number_of("1 x 1", noun) == f"1 x 1 {noun}"
