"""Scenery: a wall, a tower, a city, a street, sculptures, and a robot at a table."""

import numpy as np

import bvh
from bvh.apps.bundled import bundled
from bvh.docs.programs import foliage
from bvh.docs.programs.gallery.sheet import Floats, Mesh, ground


def wall(n: int) -> Mesh:
    """Return vertices and faces of uneven relief, in numbers that float32 holds."""
    shape, rng = (3 * n // 2 + 1, n + 1), np.random.default_rng(3)
    x, y = (np.indices(shape) + rng.uniform(-0.3, 0.3, (2, *shape))) / n
    points = np.stack([x, y, 0.04 * np.sin(9 * x) * np.cos(11 * y)], axis=-1)
    mesh: Mesh = bundled("meshes.shapes").grid(points.astype(np.float32).astype(float))
    return mesh


# Where the tower stands in a map, in metres.
PLACE = np.array([5e5, 5.8e6, 0.0])


def bulge(points: Floats) -> Floats:
    """Return how far outside of its plan the tower was built, at points of it."""
    x, y, z = (points - PLACE).T
    a = np.arctan2(y, x)
    waves = np.cos(3 * a + z / 25) * np.sin(z / 14)
    return np.asarray(0.035 * waves + 0.02 * np.cos(8 * a - z / 6))


def tower(n: int) -> tuple[Mesh, Mesh]:
    """Return the plan of a cooling tower, closed, and a scan of it without its ends."""
    lathe, z = bundled("meshes.shapes").lathe, np.linspace(-2.0, 112.0, n)
    radius = 24.0 * np.sqrt(1.0 + ((z - 82.0) / 58.0) ** 2)
    inside = np.c_[radius - 0.4, z][::-1]
    plan, faces = lathe(np.r_[np.c_[radius, z], inside, [[radius[0], z[0]]]], 3 * n)
    scan, outside = lathe(np.c_[radius, z][n // 50 : -n // 50], 3 * n)
    normal = scan * [1.0, 1.0, 0.0]
    normal[:, 2] = (82.0 - scan[:, 2]) * (24.0 / 58.0) ** 2
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    scan += PLACE
    return (plan + PLACE, faces), (scan + bulge(scan)[:, None] * normal, outside)


def city(n: int) -> Mesh:
    """Return n x n blocks of houses around a tower, in metres, higher towards the middle."""
    rng, shapes = np.random.default_rng(4), bundled("meshes.shapes")
    parts = [shapes.box((-3e3, -3e3, -1), (3e3, 3e3, 0)), shapes.box((-7, -7, 0), (7, 7, 130))]
    parts.append(shapes.box((-0.3, -0.3, 130), (0.3, 0.3, 149)))
    for x, y in np.indices((4 * n, 4 * n)).reshape(2, -1).T - (2 * n - 0.5):
        low = np.array([x, y]) * 22.0 + np.sign([x, y]) * 12.0 - 9.0
        tall = 60.0 * np.exp(-(x * x + y * y) / (n * n)) * rng.random() ** 2
        high = (*(low + rng.uniform(12, 19, 2)), 8.0 + 10.0 * rng.random() + tall)
        parts.append(shapes.box((*low, 0.0), high))
    mesh: Mesh = shapes.merged(parts)
    return mesh


def street(trees: int) -> tuple[Mesh, Mesh]:
    """Return the solid parts of a street along x, in metres, and the leaves of its trees."""
    rng, shapes = np.random.default_rng(2), bundled("meshes.shapes")
    solid, leaves = [shapes.box((-80, -60, -1), (80, 60, 0))], []
    for x, y in zip(np.repeat(np.arange(-80, 80, 16.0), 2), [13, -23] * 10, strict=True):
        solid.append(shapes.box((x, y, 0), (x + 12, y + 10, 6 + 6 * rng.random())))
        x, y = x + 3 * rng.random(), np.sign(y) * 4.6
        solid.append(shapes.box((x, y - 0.9, 0.3), (x + 4.4, y + 0.9, 0.9)))
        solid.append(shapes.box((x + 1, y - 0.8, 0.9), (x + 3.6, y + 0.8, 1.5)))
    corners, quads, _ = foliage.cards(1500)
    middles = corners.reshape(-1, 4, 3).mean(axis=1)
    crown = corners[(np.linalg.norm(middles - 0.5, axis=1) < 0.5).repeat(4)] - 0.5
    for x, side in zip(np.linspace(-70, 70, trees), rng.choice([-8.3, 8.3], trees), strict=True):
        solid.append(shapes.moved(shapes.lathe([(0.2, 0), (0.15, 4)], 8), (x, side, 0)))
        leaves.append((crown * [5, 5, 4.5] + [x, side, 5], quads[: len(crown) // 2]))
    return shapes.merged(solid), shapes.merged(leaves)


def holed(frequency: int) -> Mesh:
    """Return the sculpture with round holes in front, and around the plane y = 0."""
    points, faces = bundled("meshes.organic").organic(frequency)
    middles = points[faces].mean(axis=1)
    places = np.flatnonzero((np.abs(middles[:, 1]) < 0.08) | (middles[:, 1] < -0.6))
    holes = middles[np.random.default_rng(8).choice(places, 16, replace=False)]
    near = np.linalg.norm(middles[:, None] - holes, axis=2).min(axis=1)
    return points, faces[near > 0.15]


def rounded(mesh: Mesh, steps: int = 4) -> Mesh:
    """Return a closed mesh with its vertices moved to their neighbours: folds cast jagged light."""
    points, faces = mesh
    start, end = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2).T
    count = np.bincount(start)[:, None]
    for _ in range(steps):
        sums = np.stack([np.bincount(start, points[end, k]) for k in range(3)], axis=1)
        points = 0.5 * (points + sums / count)
    return points, faces


def statues(frequency: int) -> tuple[bvh.Scene, int]:
    """Return three sculptures on a floor, and the id of the floor."""
    mesh = rounded(bundled("meshes.organic").organic(frequency))
    scene, tree = bvh.Scene(), bvh.BVH.from_triangles(*mesh)
    for k, name in enumerate(("left", "middle", "right")):
        place, (c, s) = np.eye(4), (np.cos(2.0 * k), np.sin(2.0 * k))
        place[:2, :2], place[:3, 3] = [[c, -s], [s, c]], [2.7 * k - 2.7, 0, -tree.bounds[0, 2]]
        scene.add(tree, place, name=name)
    return scene, ground(scene, reach=50.0)


def table() -> Mesh:
    """Return a table with a sculpture and a post on it, in metres."""
    shapes, (points, faces) = bundled("meshes.shapes"), bundled("meshes.organic").organic(24)
    statue = 0.3 * points + [1.62, 0.0, 0.55 - 0.3 * points[:, 2].min()], faces
    top = shapes.box((0.75, -1.5, 0.47), (2.3, 1.5, 0.55))
    legs = [shapes.box((x, y, 0), (x + 0.1, y + 0.1, 0.5)) for x in (0.8, 2.1) for y in (-1.4, 1.3)]
    post = shapes.moved(shapes.lathe([(0.06, 0), (0.06, 0.62), (0, 0.62)], 48), (1.3, -0.75, 0.55))
    mesh: Mesh = shapes.merged([top, *legs, statue, post])
    return mesh


def robot() -> list[Mesh]:
    """Return the links of an arm, each along z from its joint at the origin."""
    shapes, a = bundled("meshes.shapes"), np.linspace(-np.pi / 2, np.pi / 2, 24)
    foot = [(0.34, 0), (0.34, 0.06), (0.2, 0.14), (0.16, 0.5), (0, 0.5)]
    links = [shapes.lathe(foot, 64)]
    for size, length in ((0.14, 1.1), (0.1, 0.9)):
        high = size * np.sin(a) + length * (a > 0.0)
        links.append(shapes.lathe(np.c_[size * np.cos(a), high], 64))
    hand = [shapes.box((-0.06, -0.11, 0.05), (0.06, 0.11, 0.2))]
    hand += [shapes.box((-0.03, y, 0.2), (0.03, y + 0.03, 0.38)) for y in (-0.1, 0.07)]
    return [*links, shapes.merged(hand)]


def swing(n: int) -> list[Floats]:
    """Return the matrices of the links, each (n, 4, 4), while the hand passes over the table."""
    turn, found, at = np.linspace(-0.95, 0.95, n), [], np.tile(np.eye(4), (n, 1, 1))
    heights, bends = (0.0, 0.6, 1.1, 0.9), np.full((4, n), 0.9)
    bends[:2] = turn, 0.59 + 0.3 * turn**2
    for height, angle, (i, j) in zip(heights, bends, [(0, 1), *[(2, 0)] * 3], strict=True):
        joint = np.tile(np.eye(4), (n, 1, 1))
        joint[:, i, i] = joint[:, j, j] = np.cos(angle)
        joint[:, j, i] = np.sin(angle)
        joint[:, i, j] = -np.sin(angle)
        joint[:, 2, 3] = height
        at = at @ joint
        found.append(at)
    return found
