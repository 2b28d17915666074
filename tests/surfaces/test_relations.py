"""How solids are related: against sets of voxels, and cases in which other tools answer nothing."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH
from tests.oracles import voxels as oracle

SECONDS = float(os.environ.get("BVH_FUZZ_SECONDS", "60"))

# Of a relation, that of the second to the first.
BACK = {"inside": "contains", "contains": "inside"}

# Integer maps that keep volumes: shears, a mirror, an exchange of axes.
MAPS = [
    np.eye(3), np.diag([-1.0, 1.0, 1.0]), np.eye(3)[[1, 2, 0]],
    np.array([[1.0, 2.0, -1.0], [0.0, 1.0, 3.0], [0.0, 0.0, -1.0]]),
    np.array([[1.0, 0.0, 0.0], [-2.0, 1.0, 0.0], [1.0, -1.0, 1.0]]),
]  # fmt: skip


def box(low: object, high: object) -> BVH:
    """Return a tree over a box."""
    return BVH.from_mesh(trimesh.creation.box(bounds=[low, high]))


def check_voxels(
    rng: np.random.Generator, count: int, size: int = 4, bits: int = 0
) -> dict[str, int]:
    """Compare random solids of voxels, moved by exact maps; return how often each relation was.

    Axes are scaled by powers of two that differ by up to 2 `bits` bits.
    """
    seen: dict[str, int] = {}
    for _ in range(count):
        a, b = (oracle.random_voxels(rng, size) for _ in range(2))
        wanted = oracle.relation(a, b)
        matrix, scale = MAPS[rng.integers(len(MAPS))], 2.0 ** rng.integers(-30, 30)
        scale, trees = scale * 2.0 ** rng.integers(-bits, bits + 1, 3), []
        for voxels in (a, b):
            v, f = oracle.surface(voxels, rng, rng.random() < 0.3, rng.random() < 0.7)
            f = f[:, ::-1] if rng.random() < 0.2 else f
            trees.append(BVH.from_triangles((v @ matrix.T) * scale, f))
        found = trees[0].relation(trees[1])
        assert found == wanted, (sorted(a), sorted(b))
        assert trees[1].relation(trees[0]) == BACK.get(wanted, wanted)
        seen[wanted] = seen.get(wanted, 0) + 1
    return seen


@pytest.mark.parametrize("count", [14, pytest.param(120, marks=pytest.mark.long)])
def test_voxels(count: int, rng: np.random.Generator) -> None:
    """Shared faces, edges and vertices, double walls, normals inward, mirrors, in all relations."""
    seen = set[str]().union(*(check_voxels(rng, count, bits=bits) for bits in (0, 60, 300)))
    assert seen >= {"disjoint", "touching", "overlapping"}


def cut(count: int, flip: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a unit cube whose sides are grids of squares, with either diagonals."""
    sides, along = [], np.linspace(0.0, 1.0, count + 1)
    for axis in range(3):
        for height in (0.0, 1.0):
            grid = np.stack(np.meshgrid(along, along, [height], indexing="ij"), -1)[:, :, 0]
            grid = np.roll(grid, axis, axis=2)
            a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
            halves = ((a, b, d), (b, c, d)) if flip else ((a, b, c), (a, c, d))
            sides += [np.stack(half, 2).reshape(-1, 3, 3) for half in halves]
    points, faces = np.unique(np.concatenate(sides).reshape(-1, 3), axis=0, return_inverse=True)
    return points, faces.reshape(-1, 3)


def column(sides: int, low: float, high: float, start: float) -> BVH:
    """Return a column whose caps are fans."""
    angle, i, faces = 2 * np.pi * np.arange(sides) / sides + start, np.arange(sides), []
    rim = np.stack([np.cos(angle), np.sin(angle), np.zeros(sides)], 1)
    for k in range(1, sides - 1):
        faces += [[i[0] + sides, i[k] + sides, i[k + 1] + sides], [i[0], i[k + 1], i[k]]]
    for k in range(sides):
        q = (k + 1) % sides
        faces += [[k, q, q + sides], [k, q + sides, k + sides]]
    return BVH.from_triangles(np.concatenate([rim + [0, 0, low], rim + [0, 0, high]]), faces)


def test_thousands_of_faces_in_contact(rng: np.random.Generator) -> None:
    """Revisions of a part, walls with other diagonals, hollow and doubled solids, fans."""
    ball = trimesh.creation.icosphere(subdivisions=3)
    v, f = np.array(ball.vertices), np.array(ball.faces)
    tree, moved = BVH.from_triangles(v, f), v.copy()
    for factor, wanted in ((1.05, "inside"), (0.95, "contains")):
        moved[7] = factor * v[7]
        assert tree.relation(BVH.from_triangles(moved, rng.permutation(f))) == wanted
    moved[9] *= 1.05
    assert tree.relation(BVH.from_triangles(moved, f)) == "overlapping"
    assert tree.relation(joined((v, f), (0.9 * v, f))) == "contains"
    # The ball is the cavity of another.
    assert tree.relation(joined((v, f), (2 * v, f))) == "touching"
    # A skin twice bounds nothing, beside a solid that does; three times it bounds the ball.
    assert tree.relation(BVH.from_triangles(v, np.concatenate([f, f]))) == "touching"
    assert tree.relation(joined((v, f), (v, f), (0.5 * v, f))) == "contains"
    assert tree.relation(BVH.from_triangles(v, np.concatenate([f, f, f]))) == "equal"
    cube, other = cut(12, False), cut(12, True)
    first = BVH.from_triangles(*cube)
    assert first.relation(BVH.from_triangles(*other)) == "equal"
    for shift, wanted in (
        ([1, 0, 0], "touching"), ([1, 0.3, 0.25], "touching"), ([0.5, 0, 0], "overlapping"),
        ([1, 1, 0.5], "touching"),
    ):  # fmt: skip
        assert first.relation(BVH.from_triangles(other[0] + shift, other[1])) == wanted
    half = BVH.from_triangles(other[0] * [1, 1, 0.5], other[1])
    assert first.relation(half) == "contains" and half.relation(first) == "inside"
    assert column(64, 0, 1, 0.0).relation(column(64, 1, 2, 0.3 / 64)) == "touching"
    assert column(64, 0, 1, 0.0).relation(column(64, 0, 2, 0.3 / 64)) == "overlapping"
    assert column(64, 0, 2, 0.0).relation(column(64, 0, 1, 0.0)) == "contains"


def test_one_solid_by_other_triangles(rng: np.random.Generator) -> None:
    """Walls with other diagonals beside a ball, walls and balls of which pairs cancel."""
    cube, other = cut(3, False), cut(3, True)
    ball = trimesh.creation.icosphere(subdivisions=1)
    w, f = np.array(ball.vertices) * 0.25 + [3, 0, 0], np.array(ball.faces)
    tree = joined(cube, (w, f))
    assert tree.relation(joined(other, (w, rng.permutation(f)))) == "equal"
    moved = w.copy()
    moved[5] = (w[5] - [3, 0, 0]) * 1.001 + [3, 0, 0]
    assert tree.relation(joined(other, (moved, f))) == "inside"
    assert joined(cube, cube).relation(joined(other, other)) == "touching"
    assert tree.relation(joined(other, other, other, (w, f), (w, f), (w, f))) == "equal"
    half = BVH.from_triangles(other[0] * [1, 1, 0.5], other[1])
    assert BVH.from_triangles(*cube).relation(half) == "contains"


@pytest.mark.slow
def test_voxels_for_long(rng: np.random.Generator) -> None:
    """The same, for some time."""
    end, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        count += sum(check_voxels(rng, 50, int(rng.integers(2, 7))).values())
        check_walls(rng, 10)
    print(f"{count} pairs of solids")


def test_hostile_pairs() -> None:
    """Walls in one line, equal boxes, a box in a box, contacts from outside; nested shells."""
    unit, wall = box([0, 0, 0], [1, 1, 1]), box([0, 0, 0], [4, 0.2, 3])
    assert wall.relation(box([3, 0, 0], [7, 0.2, 3])) == "overlapping"
    assert wall.relation(box([4, 0, 0], [7, 0.2, 3])) == "touching"
    assert unit.relation(box([0, 0, 0], [1, 1, 1])) == "equal"
    assert unit.relation(box([0.25, 0.25, 0], [0.5, 0.5, 0.5])) == "contains"
    assert box([0.3, 0.3, 0.3], [0.5, 0.5, 0.5]).relation(unit) == "inside"
    assert unit.relation(box([1, 0.2, 0.3], [2, 0.5, 0.6])) == "touching"
    assert unit.relation(box([1, 1, 0.3], [2, 2, 0.6])) == "touching"
    # An overlap as thin as doubles are.
    assert unit.relation(box([np.nextafter(1.0, 0.0), 0, 0], [2, 1, 1])) == "overlapping"
    assert unit.relation(box([np.nextafter(1.0, 2.0), 0, 0], [2, 1, 1])) == "disjoint"
    # A vertex of an octahedron on a face; an edge of it across an edge.
    gem = np.concatenate([np.eye(3), -np.eye(3)])
    faces = trimesh.Trimesh(gem).convex_hull
    gems = BVH.from_mesh(faces)
    shifts = np.tile(np.eye(4), (3, 1, 1))
    shifts[:, :3, 3] = [2.0, 0.5, 0.5], [1.5, 1.5, 0.5], [1.5, 1.25, 0.5]
    assert unit.relation(gems, shifts).tolist() == ["touching", "touching", "overlapping"]
    inner = trimesh.creation.box(bounds=[[0.25] * 3, [0.75] * 3])
    for inverted in (False, True):
        if inverted:
            inner.invert()
        shell = BVH.from_mesh(
            trimesh.util.concatenate([trimesh.creation.box(bounds=[[0] * 3, [1] * 3]), inner])
        )
        assert shell.relation(box([0.25] * 3, [0.75] * 3)) == "touching"
        assert shell.relation(box([0.3] * 3, [0.7] * 3)) == "disjoint"
        assert shell.relation(box([0.2] * 3, [0.7] * 3)) == "overlapping"
        assert shell.relation(unit) == "inside"


def joined(*parts: tuple[np.ndarray, np.ndarray]) -> BVH:
    """Return a tree over several meshes as one."""
    starts = np.cumsum([0] + [len(v) for v, _ in parts])
    faces = [np.asarray(f) + start for (_, f), start in zip(parts, starts, strict=False)]
    return BVH.from_triangles(np.concatenate([v for v, _ in parts]), np.concatenate(faces))


def walls(rng: np.random.Generator, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a mesh that bounds nothing, strictly within a cube of a corner and size 1."""
    kind = rng.integers(3)
    if kind == 0:
        sheet = rng.integers(1, 7, (3, 3)) / 8
        return sheet + cell, np.array([[0, 1, 2], [0, 2, 1]])
    # A solid twice, with the same diagonals or with others.
    voxels = oracle.random_voxels(rng, 2)
    first = oracle.surface(voxels, rng)
    second = first if kind == 1 else oracle.surface(voxels, rng)
    points = np.concatenate([first[0], second[0]]) / 8 + 0.25
    return points + cell, np.concatenate([first[1], second[1] + len(first[0])])


def check_walls(rng: np.random.Generator, count: int) -> None:
    """Compare solids that do not meet, with walls that bound nothing, with sets of voxels."""
    for _ in range(count):
        big, small = oracle.random_voxels(rng, 3), oracle.random_voxels(rng, 2)
        cell = rng.integers(-1, 4, 3)
        v, f = oracle.surface(small, rng, rng.random() < 0.3)
        sides = [[oracle.surface(big, rng, rng.random() < 0.3)], [(v / 8 + 0.25 + cell, f)]]
        cells = {tuple(cell.tolist())}
        for side in sides:
            for _ in range(rng.integers(3)):
                at = rng.integers(-1, 4, 3)
                # Nothing but the small solid is in its cell, so that no surfaces meet.
                if tuple(at.tolist()) not in cells:
                    cells.add(tuple(at.tolist()))
                    side.append(walls(rng, at))
        parts = [[side[k] for k in rng.permutation(len(side))] for side in sides]
        one, two = (joined(*side) for side in parts)
        wanted = "contains" if tuple(cell.tolist()) in big else "disjoint"
        assert one.relation(two) == wanted
        assert two.relation(one) == BACK.get(wanted, wanted)


@pytest.mark.parametrize("count", [30, pytest.param(60, marks=pytest.mark.long)])
def test_walls_without_thickness(count: int, rng: np.random.Generator) -> None:
    """A face and its reverse, and parts that are there twice, bound nothing; also as fins."""
    check_walls(rng, count)
    fin = np.array([[1.0, 0, 0], [1, 1, 0], [2, 0.5, 0.5]])
    cube = box([0] * 3, [1] * 3)
    with_fin = joined((fin, np.array([[0, 1, 2], [0, 2, 1]])), (cube.vertices, cube.faces))
    assert with_fin.relation(box([-1] * 3, [3] * 3)) == "inside"
    assert with_fin.relation(box([5] * 3, [6] * 3)) == "disjoint"
    assert with_fin.relation(box([0.25] * 3, [0.5] * 3)) == "contains"


def test_contact_with_a_wall_beside_a_fin() -> None:
    """A fin of two triangulations, and a wall in the other solid, neither of which has a volume."""
    ball, room = box([-1, -1, -1], [1, 1, 1]), box([-9, -9, -9], [9, 9, 9])
    ends = np.flatnonzero((ball.vertices[:, 0] > 0) & (ball.vertices[:, 2] > 0))
    (a, b), c, d = ends, len(ball.vertices), len(ball.vertices) + 1
    tips = ball.vertices[ends] + [2.0, 0.0, 0.0]
    fin = [[a, c, d], [a, d, b], [a, b, c], [b, d, c]]
    wall = np.array([[-1.5, 0.0, 0.0], [-1.0, 0.3, 0.1], [-1.5, 0.0, 0.3]])
    k = len(room.vertices)
    walled = BVH.from_triangles(
        np.vstack([room.vertices, wall]), [*room.faces, [k, k + 1, k + 2], [k, k + 2, k + 1]]
    )
    for faces in ([*fin, *ball.faces], [*ball.faces, *fin]):
        finned = BVH.from_triangles(np.vstack([ball.vertices, tips]), faces, warn=False)
        for other in (walled, room):
            assert finned.relation(other) == "inside" and other.relation(finned) == "contains"


def test_transforms(rng: np.random.Generator) -> None:
    """A query a transform, of leading shape; rotations; a scene decides alike."""
    ball = BVH.from_mesh(trimesh.creation.icosphere(2))
    moves = np.tile(np.eye(4), (2, 3, 1, 1))
    moves[:, :, 0, 3] = [[0.0, 1.0, 2.5], [0.5, 1.999, 0.0]]
    moves[1, 2, :3, :3] *= 0.5
    found = ball.relation(ball, moves)
    assert found.shape == (2, 3)
    wanted = [["equal", "overlapping", "disjoint"], ["overlapping", "overlapping", "contains"]]
    assert found.tolist() == wanted
    turn = trimesh.transformations.rotation_matrix(0.3, [1, 2, 3])
    assert box([-1] * 3, [1] * 3).relation(box([-0.5] * 3, [0.5] * 3), turn) == "contains"
    calls: list[tuple[int, int]] = []
    ball.relation(ball, moves[0], progress=lambda *call: calls.append(call))
    assert calls[-1] == (3, 3)


def test_scene_relations() -> None:
    """Near pairs of instances, whose maps are rounded once; hidden ones and open ones."""
    scene = bvh.Scene()
    unit = box([0] * 3, [1] * 3)
    maps = np.tile(np.eye(4), (4, 1, 1))
    maps[1:, 0, 3] = 1.0, 1.5, 9.0
    scene.add_many(unit, maps, ["a", "b", "c", "d"])
    found = scene.relations()
    assert found.instance_id.tolist() == [[0, 1], [1, 2]]
    assert found.relation.tolist() == ["touching", "overlapping"]
    scene.add(BVH.from_triangles(np.eye(3), [[0, 1, 2]]), name="sheet")
    with pytest.raises(ValueError, match="open edges"):
        scene.relations()
    assert len(scene.relations(ignore=[("a", "sheet"), ("b", "sheet")])) == 2
