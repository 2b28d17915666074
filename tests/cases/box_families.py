"""Hostile boxes with rays to match: a registry like that of `families`.

Families for `ray_box` only hold infinite boxes, which a tree ignores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tests.cases.family_parts import (
    INF,
    NAN,
    RANGES,
    TINY,
    Floats,
    Rng,
    any_numbers,
    axes,
    oblique,
    registrar,
    rng_of,
    some,
    units,
)
from tests.oracles.rays import box_interval

Boxes = tuple[Floats, Floats]


@dataclass(frozen=True)
class BoxFamily:
    """Boxes (m, 3) and rays (n, 3), ranges scalars or (n,)."""

    lower: Floats
    upper: Floats
    origins: Floats
    directions: Floats
    t_min: float | Floats = 0.0
    t_max: float | Floats = INF
    ray_box_only: bool = False


BOX_FAMILIES: dict[str, Callable[[Rng], BoxFamily]] = {}
box_family = registrar(BOX_FAMILIES)


def build_boxes(name: str, seed: int = 0) -> BoxFamily:
    """Make one family."""
    return BOX_FAMILIES[name](rng_of(name, seed))


def box_families(seed: int = 0) -> dict[str, BoxFamily]:
    """Make all families."""
    return {name: build_boxes(name, seed) for name in BOX_FAMILIES}


def lattice_boxes(n: int, rng: Rng) -> Boxes:
    lower = rng.integers(-8, 6, (n, 3)).astype(float)
    return lower, lower + rng.integers(1, 5, (n, 3))


def random_boxes(n: int, rng: Rng) -> Boxes:
    lower = rng.uniform(-1, 0.7, (n, 3))
    return lower, lower + rng.uniform(0.05, 0.4, (n, 3))


def points_of(boxes: Boxes, n: int, rng: Rng, *kinds: str) -> Floats:
    """Return corners, or points of edges, faces or insides; exact for lattice boxes."""
    free = {"corner": 0, "edge": 1, "face": 2, "inside": 3}
    count = rng.choice([free[kind] for kind in kinds or free], n)
    between = rng.permuted(np.arange(3) < count[:, None], axis=1)
    w = np.where(between, rng.choice([0.25, 0.5, 0.75], (n, 3)), rng.integers(0, 2, (n, 3)))
    i = rng.integers(0, len(boxes[0]), n)
    # Not lower + w (upper - lower): corners must be met exactly in any box.
    return np.where(w == 1, boxes[1][i], (1 - w) * boxes[0][i] + w * boxes[1][i])


def made(
    boxes: Boxes,
    origins: ArrayLike,
    directions: ArrayLike,
    t_min: ArrayLike = 0.0,
    t_max: ArrayLike = INF,
    ray_box_only: bool = False,
) -> BoxFamily:
    """Return a family of plain float64 arrays."""
    o, d = np.array(origins, np.float64), np.array(directions, np.float64)
    low, high = np.asarray(t_min, np.float64), np.asarray(t_max, np.float64)
    return BoxFamily(*boxes, o, d, low[()], high[()], ray_box_only)


def through(boxes: Boxes, n: int, rng: Rng, *kinds: str) -> tuple[Floats, Floats]:
    """Return oblique rays exactly through points of lattice boxes; t is often no double."""
    d = oblique(n, rng)
    o = points_of(boxes, n, rng, *kinds) - rng.choice([1, 2, 8], (n, 1)) * d
    return o, d * rng.choice([1, 3, 7, 49], (n, 1))


def aimed(boxes: Boxes, n: int, rng: Rng) -> tuple[Floats, Floats]:
    """Return rays at corners, edges and faces, as rounding has them."""
    o = 4.0 * np.abs(boxes[1]).max() * rng.uniform(-1, 1, (n, 3))
    return o, points_of(boxes, n, rng, "corner", "edge", "face") - o


@box_family("exact", "corner", "edge", "face")
def exact(rng: Rng, value: str) -> BoxFamily:
    boxes = lattice_boxes(12, rng)
    return made(boxes, *through(boxes, 80, rng, value))


@box_family("touching", "corner", "edge")
def touching(rng: Rng, value: str) -> BoxFamily:
    """Touch a cube of which the ray meets nothing else: d is orthogonal to a supporting normal."""
    boxes = np.full((1, 3), -2.0), np.full((1, 3), 2.0)
    side = rng.choice([-1, 1], (80, 3))
    normal = side * rng.integers(1, 4, (80, 3))
    point = 2 * side
    if value == "edge":
        at = np.arange(80), rng.integers(0, 3, 80)
        normal[at], point[at] = 0, rng.integers(-1, 2, 80)
    d = np.cross(normal, rng.integers(-3, 4, (80, 3)))
    return made(boxes, point - 3 * d, d * rng.choice([1, 3, 7], (80, 1)))


@box_family("ulp_off", "corner", "edge", "face", "touching")
def ulp_off(rng: Rng, value: str) -> BoxFamily:
    """Meet or touch exactly, but for one ulp of one coordinate of origin or direction."""
    boxes = lattice_boxes(8, rng)
    if value == "touching":
        family = touching(rng, "corner")
        boxes, o, d = (family.lower, family.upper), family.origins, family.directions
    else:
        o, d = through(boxes, 80, rng, value)
    both = np.stack([o, d])
    at = rng.integers(0, 2, 80), np.arange(80), rng.integers(0, 3, 80)
    both[at] = np.nextafter(both[at], rng.choice([-INF, INF], 80))
    return made(boxes, *both)


@box_family("axis_rays", "corner", "edge", "face")
def axis_rays(rng: Rng, value: str) -> BoxFamily:
    """Run along edges, in faces and through corners."""
    boxes = lattice_boxes(12, rng)
    d = axes(90, rng)
    return made(boxes, points_of(boxes, 90, rng, value) - rng.choice([0, 1, 9], (90, 1)) * d, d)


@box_family("rays_in_faces")
def rays_in_faces(rng: Rng) -> BoxFamily:
    boxes = lattice_boxes(12, rng)
    d = rng.permuted(oblique(90, rng) * [1, 1, 0], axis=1)
    o = points_of(boxes, 90, rng, "edge", "face", "corner") - rng.choice([0, 2], (90, 1)) * d
    o[::3] = np.where(d[::3] == 0, np.nextafter(o[::3], rng.choice([-INF, INF], (30, 3))), o[::3])
    return made(boxes, o, d)


@box_family("signed_zeros")
def signed_zeros(rng: Rng) -> BoxFamily:
    lower, upper = lattice_boxes(8, rng)
    lower[:, 0], upper[:, 1] = rng.choice([-0.0, 0.0], (2, 8))
    boxes = np.minimum(lower, upper), np.maximum(lower, upper)
    d = rng.choice([-0.0, 0.0, 1.0, -1.0], (150, 3))
    o = points_of(boxes, 150, rng) - rng.choice([0, 3], (150, 1)) * d
    return made(boxes, np.where(o == 0, rng.choice([-0.0, 0.0], (150, 3)), o), d)


@box_family("thin", "point", "segment", "flat")
def thin(rng: Rng, value: str) -> BoxFamily:
    lower, upper = lattice_boxes(12, rng)
    keep = rng.permuted(np.arange(3) < {"point": 0, "segment": 1, "flat": 2}[value], axis=0)
    boxes = lower, np.where(keep, upper, lower)
    o, d = through(boxes, 90, rng)
    d[:30] = axes(30, rng)
    o[:30] = points_of(boxes, 30, rng) - rng.choice([0, 4], (30, 1)) * d[:30]
    o[60:] += rng.choice([0, 2.0**-48], (30, 3))
    return made(boxes, o, d)


@box_family("no_box", "inverted", "nan", "empty")
def no_box(rng: Rng, value: str) -> BoxFamily:
    """Mix boxes in that cannot be hit, or have none."""
    lower, upper = lattice_boxes(12, rng)
    o, d = through((lower, upper), 60, rng)
    at = np.arange(0, 12, 2), rng.integers(0, 3, 6)
    if value == "inverted":
        lower[at], upper[at] = upper[at], lower[at]
    elif value == "nan":
        lower[at] = NAN
        upper[::4] = np.where(rng.random((3, 3)) < 0.5, NAN, upper[::4])
    else:
        lower, upper = lower[:0], upper[:0]
    return made((lower, upper), o, d)


@box_family("infinite", "some_sides", "most_sides", "empty_sides")
def infinite(rng: Rng, value: str) -> BoxFamily:
    """Leave boxes open on some sides; or put a whole slab at infinity."""
    lower, upper = lattice_boxes(12, rng)
    o, d = through((lower, upper), 80, rng)
    d[::4] = axes(20, rng)
    share = 0.9 if value == "most_sides" else 0.3
    lower[rng.random((12, 3)) < share], upper[rng.random((12, 3)) < share] = -INF, INF
    if value == "empty_sides":
        lower[::2, 1] = upper[::2, 1] = rng.choice([-INF, INF], 6)
    ends = some(np.array([(0, INF), (-INF, INF), (-1, 1), (INF, INF), (-INF, -INF)]), 80, rng)
    return made((lower, upper), o, d, *ends.T, ray_box_only=True)


@box_family("origins", "corner", "edge", "face", "inside")
def origins(rng: Rng, value: str) -> BoxFamily:
    boxes = lattice_boxes(12, rng)
    d = rng.integers(-3, 4, (100, 3))
    t_min = rng.choice([0.0, -0.0, TINY, -TINY, -INF, 1.0], 100)
    return made(boxes, points_of(boxes, 100, rng, value), d, t_min)


@box_family("range", *RANGES)
def special_range(rng: Rng, value: str) -> BoxFamily:
    boxes = lattice_boxes(8, rng)
    d = oblique(50, rng)
    o = points_of(boxes, 50, rng) - rng.choice([-1, 0, 1, 2], (50, 1)) * d
    return made(boxes, o, d, *RANGES[value])


@box_family("bound_at_end", "t_min", "t_max", "both")
def bound_at_end(rng: Rng, value: str) -> BoxFamily:
    """End the range where the ray enters or leaves, one ulp before it and one ulp after it."""
    boxes = random_boxes(1, rng)
    o, _ = aimed(boxes, 40, rng)
    d = points_of(boxes, 40, rng, "inside") - o
    # A point of the inside keeps the ray in the box, rounded or not.
    ends = [box_interval(*ray, boxes[0][0], boxes[1][0]) for ray in zip(o, d, strict=True)]
    t = rng.permuted(np.array(ends, np.float64), axis=1)[:, 0].repeat(3)
    ulps = np.tile([-INF, 0.0, INF], 40)
    t = np.where(ulps == 0, t, np.nextafter(t, ulps))
    low, high = 0.0 if value == "t_max" else t, INF if value == "t_min" else t
    return made(boxes, o.repeat(3, axis=0), d.repeat(3, axis=0), low, high)


@box_family("bad_rays")
def bad_rays(rng: Rng) -> BoxFamily:
    boxes = lattice_boxes(8, rng)
    o, d = through(boxes, 90, rng)
    t_min, t_max = np.zeros(90), np.full(90, INF)
    d = d.astype(np.float64)
    bad = rng.integers(0, 3, 15)
    o[np.arange(0, 15), bad] = rng.choice([NAN, INF, -INF], 15)
    d[np.arange(20, 35), bad] = rng.choice([NAN, INF, -INF], 15)
    d[40:50] = rng.choice([0.0, -0.0], (10, 3))
    t_min[55:65], t_max[60:70] = NAN, NAN
    t_min[75:80] = 1e300
    t_max[75:80] = -1.0
    return made(boxes, o, d, t_min, t_max)


@box_family("scale", 1e-150, 1e-30, 1e30, 1e150)
def scale(rng: Rng, value: float) -> BoxFamily:
    lower, upper = random_boxes(12, rng)
    o, d = aimed((lower, upper), 60, rng)
    return made((lower * value, upper * value), o * value, d * rng.choice([1.0, value], (60, 1)))


@box_family("direction_length", 1e-200, 1e-8, 1e200)
def direction_length(rng: Rng, value: float) -> BoxFamily:
    boxes = random_boxes(12, rng)
    o, d = aimed(boxes, 60, rng)
    return made(boxes, o, d * value)


@box_family("special_directions", float(TINY), 1e-310, 2.0**1015)
def special_directions(rng: Rng, value: float) -> BoxFamily:
    """Meet lattice boxes exactly with denormal or huge directions; t may saturate."""
    boxes = lattice_boxes(12, rng)
    o, d = through(boxes, 60, rng)
    return made(boxes, o, d * value, rng.choice([0.0, TINY], 60))


@box_family("tiny_components", 1e-17, 1e-200, float(TINY))
def tiny_components(rng: Rng, value: float) -> BoxFamily:
    boxes = lattice_boxes(12, rng)
    axis = axes(90, rng)
    o = points_of(boxes, 90, rng) - rng.choice([0, 1, 16], (90, 1)) * axis
    return made(boxes, o, np.where(axis == 0, value * rng.integers(-3, 4, (90, 3)), axis))


@box_family("t_range_of_doubles", "overflow", "underflow", "subnormal")
def t_range_of_doubles(rng: Rng, value: str) -> BoxFamily:
    size, length = {
        "overflow": (1e150, 1e-200), "underflow": (1e-150, 1e200), "subnormal": (1e-9, 1e302)
    }[value]  # fmt: skip
    lower, upper = random_boxes(12, rng)
    o, d = aimed((lower, upper), 60, rng)
    low, high = rng.choice([0.0, TINY, -INF], 60), rng.choice([np.finfo(float).max, INF, TINY], 60)
    return made((lower * size, upper * size), o * size, d * length, low, high)


@box_family("beyond", "largest", "denormal")
def beyond(rng: Rng, value: str) -> BoxFamily:
    """Leave the range of coordinates that is promised."""
    lower, upper = lattice_boxes(12, rng)
    o, d = through((lower, upper), 60, rng)
    size = 2.0**1020 if value == "largest" else TINY
    o = np.clip(o, -15, 15)
    return made(
        (lower * size, upper * size), o * size, d * rng.choice([1.0, size / 64, TINY], (60, 1))
    )


@box_family("rounded")
def rounded(rng: Rng) -> BoxFamily:
    """Aim at corners and edges, so that entry and exit differ by rounding at most."""
    boxes = random_boxes(12, rng)
    return made(boxes, *aimed(boxes, 120, rng))


@box_family("far_origins", 1e6, 1e12, 1e15)
def far_origins(rng: Rng, value: float) -> BoxFamily:
    boxes = random_boxes(12, rng)
    target, away = points_of(boxes, 80, rng), units(80, rng)
    o = target + value * away
    return made(boxes, o, np.where(rng.random((80, 1)) < 0.5, -away, target - o))


@box_family("geo_offset", 1e7)
def geo_offset(rng: Rng, value: float) -> BoxFamily:
    lower, upper = random_boxes(12, rng)
    boxes = lower * 1e-3 + value, upper * 1e-3 + value
    o = value + rng.uniform(-1, 1, (80, 3))
    return made(boxes, o, points_of(boxes, 80, rng, "corner", "edge") - o)


@box_family("aspect", 1e-6, 1e-12)
def aspect(rng: Rng, value: float) -> BoxFamily:
    lower, upper = random_boxes(12, rng)
    boxes = lower * [1, value, value**2], upper * [1, value, value**2]
    o, d = aimed(boxes, 80, rng)
    return made(boxes, o, d)


@box_family("voxels")
def voxels(rng: Rng) -> BoxFamily:
    """Pass between cells of a full grid, in shuffled order."""
    lower = rng.permutation(np.stack(np.unravel_index(np.arange(27), (3, 3, 3)), axis=1)) * 1.0
    boxes = lower, lower + 1
    o, d = through(boxes, 90, rng, "corner", "edge")
    d[::3] = rng.choice([-1, 0, 1], (30, 3))
    o[::3] = rng.integers(0, 4, (30, 3)) - rng.choice([0, 4], (30, 1)) * d[::3]
    return made(boxes, o, d)


@box_family("ties", "same", "ulp_apart", "nested")
def ties(rng: Rng, value: str) -> BoxFamily:
    """Enter many boxes at the same t, or start inside all of them."""
    k = rng.permutation(16)[:, None]
    lower, upper = np.tile([-1.0, -2.0, -3.0], (16, 1)), np.tile([3.0, 2.0, 1.0], (16, 1))
    if value == "ulp_apart":
        lower, upper = lower - k * 2.0**-52, upper + k * 2.0**-52
    elif value == "nested":
        lower, upper = lower - k // 2, upper + k // 2
    o, d = through((lower, upper), 60, rng)
    o[::3] = rng.uniform(-1, 1, (20, 3))
    o[1::3] -= 1e6 * d[1::3]
    return made((lower, upper), o, d, rng.choice([0.0, -1.0, -INF], 60))


@box_family("chaos", "uniform", "scales", "bits")
def chaos(rng: Rng, value: str) -> BoxFamily:
    a, b = any_numbers(value, 30, 3, rng), any_numbers(value, 30, 3, rng)
    boxes = np.minimum(a, b), np.maximum(a, b)
    o, d = any_numbers(value, 100, 3, rng), any_numbers(value, 100, 3, rng)
    with np.errstate(all="ignore"):
        d[::2] = some(a, 50, rng) - o[::2]
    return made(boxes, o, d, rng.choice([0.0, -INF], 100), ray_box_only=value == "bits")
