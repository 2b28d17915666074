"""What two solids share: against voxels, and against rational numbers; volumes of one solid."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH
from bvh.surfaces.surface import Surface
from bvh.surfaces.volumes import rounding_of
from tests.oracles import tetrahedra, voxels
from tests.oracles.vectors import cross, dot, minus
from tests.surfaces.test_relations import MAPS, box, column, cut, joined

TOLERANCE = Fraction(1, 10**12)


def tree_of(solids: np.ndarray) -> BVH:
    """Return a tree over tetrahedra (n, 4, 3) of positive volume."""
    faces = np.array(tetrahedra.FACES) + 4 * np.arange(len(solids))[:, None, None]
    return BVH.from_triangles(solids.reshape(-1, 3), faces.reshape(-1, 3))


def wound(solids: np.ndarray) -> np.ndarray:
    """Return tetrahedra, with corners exchanged where the volume is negative."""
    negative = np.linalg.det(solids[:, 1:] - solids[:, :1]) < 0
    solids[negative] = solids[negative][:, [0, 2, 1, 3]]
    return solids


def check(first: np.ndarray, second: np.ndarray) -> bool:
    """Compare what tetrahedra share with rational numbers; return whether it is not nothing."""
    volume, moment = Fraction(0), [Fraction(0)] * 3
    for a in first:
        for b in second:
            more, moments = tetrahedra.shared_moments(a, b)
            volume += more
            moment = [x + y for x, y in zip(moment, moments, strict=True)]
    trees = tree_of(first), tree_of(second)
    for own, other in (trees, trees[::-1]):
        found = own.overlap_volume(other)
        if volume == 0:
            assert found.volume == 0.0 and found.area == 0.0 and np.isnan(found.centroid).all()
        else:
            assert abs(Fraction(found.volume) - volume) <= TOLERANCE * volume
            centroid = [float(x / volume) for x in moment]
            size = np.ptp(first.reshape(-1, 3), axis=0)
            assert np.allclose(found.centroid, centroid, rtol=1e-12, atol=1e-12 * size)
            low, high = found.bounds
            assert (low <= found.centroid).all() and (found.centroid <= high).all()
    return volume != 0


def hostile(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return two tetrahedra with common planes, edges or vertices, exactly or nearly."""
    while True:
        pair = rng.integers(-3, 4, (2, 4, 3)).astype(np.float64)
        kind = rng.integers(5)
        if kind == 1:
            # Some corners in common.
            count = int(rng.integers(1, 4))
            pair[1, :count] = pair[0, :count]
        elif kind == 2:
            # The planes of two faces differ by rounding errors.
            pair[1, :3] = pair[0, :3] * rng.choice([1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53], (3, 3))
        elif kind == 3:
            # A sheet of 122 micrometres, a hundred metres away.
            pair[1] = pair[0][::-1] + [122e-6, 0.0, 0.0]
            pair += 100.0
        elif kind == 4:
            pair += rng.normal(size=(2, 4, 3)) * 10.0 ** rng.uniform(-16, 0)
        volumes = np.linalg.det(pair[:, 1:] - pair[:, :1])
        if (abs(volumes) > 1e-9).all():
            pair = wound(pair) * 2.0 ** rng.integers(-40, 40)
            return pair[:1], pair[1:]


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.long)])
def test_tetrahedra(count: int, rng: np.random.Generator) -> None:
    """Faces in one plane, or a rounding error apart; sheets; common edges and vertices."""
    assert 0 < sum(check(*hostile(rng)) for _ in range(count)) < count


@pytest.mark.filterwarnings("error")
def test_shared_volumes_whose_terms_underflow(rng: np.random.Generator) -> None:
    """The same, of very different sizes on the three axes."""
    for _ in range(50):
        first, second = hostile(rng)
        scale = 2.0 ** rng.integers(-250, 251, 3)
        check(first * scale, second * scale)


def test_several_parts(rng: np.random.Generator) -> None:
    """Solids of several parts, some of which share corners."""
    for _ in range(5):
        apart = wound(rng.integers(-3, 4, (6, 4, 3)) + rng.normal(size=(6, 4, 3)) * 0.1)
        apart += 12.0 * np.arange(6)[:, None, None] * [1.0, 0.0, 0.0]
        check(apart, apart[::-1] + rng.normal(size=3))


def check_voxels(rng: np.random.Generator, count: int, bits: int = 0) -> None:
    """Compare random solids of voxels, under exact maps, with their common voxels.

    Axes are scaled by powers of two that differ by up to 2 `bits` bits.
    """
    for _ in range(count):
        a, b = (voxels.random_voxels(rng, 4) for _ in range(2))
        which, scale = rng.integers(len(MAPS)), 2.0 ** rng.integers(-30, 30)
        scale = scale * 2.0 ** rng.integers(-bits, bits + 1, 3)
        matrix, trees = MAPS[which] * scale[:, None], []
        for solid in (a, b):
            v, f = voxels.surface(solid, rng, rng.random() < 0.3, rng.random() < 0.7)
            f = f[:, ::-1] if rng.random() < 0.2 else f
            trees.append(BVH.from_triangles(v @ matrix.T, f))
        both, shown = a & b, (sorted(a), sorted(b), which)
        found, back = trees[0].overlap_volume(trees[1]), trees[1].overlap_volume(trees[0])
        size = scale.prod()  # the maps keep volumes
        assert found.volume == pytest.approx(len(both) * size, rel=1e-13, abs=0.0), shown
        assert back.volume == pytest.approx(found.volume, rel=1e-13, abs=0.0), shown
        assert trees[0].volume == pytest.approx(len(a) * size, rel=1e-13, abs=0.0), shown
        if both:
            corners = [np.add(x, list(np.ndindex(2, 2, 2))) for x in sorted(both)]
            every = np.concatenate(corners) @ matrix.T
            assert np.allclose(found.centroid, every.mean(axis=0), rtol=0, atol=1e-13 * scale), (
                shown
            )
            # Places in which the solids only touch may extend the box.
            low, high = found.bounds
            assert (low <= every.min(axis=0)).all() and (high >= every.max(axis=0)).all(), shown


@pytest.mark.parametrize("bits", [0, 30, 250])
@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.long)])
def test_voxels(count: int, bits: int, rng: np.random.Generator) -> None:
    """Walls on walls, double walls, edges of four faces, mirrors, normals inward; thin solids."""
    check_voxels(rng, count, bits)


def test_areas(rng: np.random.Generator) -> None:
    """Areas of boxes, also where walls are in one plane, or touch elsewhere."""
    room = box([0, 0, 0], [4, 3, 2])
    for low, high in (
        ([1, 1, 1], [2, 2, 2]), ([1, 0, 0], [2, 3, 2]), ([0, 0, 0], [4, 3, 2]),
        ([-1, -1, 1], [9, 9, 9]),
    ):  # fmt: skip
        found = room.overlap_volume(box(low, high))
        low, high = np.maximum(low, 0), np.minimum(high, [4, 3, 2])
        x, y, z = high - low
        assert found.volume == x * y * z and found.area == pytest.approx(
            2 * (x * y + y * z + z * x)
        )
        assert found.bounds.tolist() == [low.tolist(), high.tolist()]
    # An L that overlaps a box with one arm, and touches it with the other.
    arms = (
        trimesh.creation.box(bounds=[[0, 0, 0], [4, 1, 1]]),
        trimesh.creation.box(bounds=[[0, 1, 0], [1, 3, 1]]),
    )
    found = joined(*((m.vertices, m.faces) for m in arms)).overlap_volume(
        box([1, 0.5, 0], [3, 3, 1])
    )
    assert found.volume == pytest.approx(1.0) and found.area == pytest.approx(2 * (1 + 2 + 0.5))


def test_contacts_and_revisions() -> None:
    """Walls with other diagonals, fans on each other, a revised part, shells, doubled skins."""
    cube, other = cut(8, False), cut(8, True)
    first = BVH.from_triangles(*cube)
    assert first.overlap_volume(BVH.from_triangles(*other)).volume == 1.0
    for shift, wanted in (
        ([1, 0, 0], 0.0),
        ([1, 0.3, 0.25], 0.0),
        ([0.5, 0, 0], 0.5),
        ([1, 1, 0.5], 0.0),
    ):
        found = first.overlap_volume(BVH.from_triangles(other[0] + shift, other[1]))
        assert found.volume == wanted, shift
    assert column(32, 0, 1, 0.0).overlap_volume(column(32, 1, 2, 0.3 / 32)).volume == 0.0
    ball = trimesh.creation.icosphere(subdivisions=2)
    v, f = np.array(ball.vertices), np.array(ball.faces)
    tree, revised = BVH.from_triangles(v, f), v.copy()
    revised[7] *= 0.9
    smaller = BVH.from_triangles(revised, f)
    assert tree.overlap_volume(smaller).volume == pytest.approx(smaller.volume, rel=1e-13)
    shell = joined((v, f), (0.5 * v, f))
    assert shell.volume == pytest.approx(tree.volume * 7 / 8, rel=1e-14)
    assert shell.overlap_volume(tree).volume == pytest.approx(shell.volume, rel=1e-13)
    assert shell.overlap_volume(BVH.from_triangles(0.5 * v, f)).volume == 0.0
    doubled = BVH.from_triangles(v, np.concatenate([f, f[:, ::-1]]))
    assert doubled.volume == 0.0 and doubled.overlap_volume(tree).volume == 0.0


def test_touching_parts_and_crossing_ones() -> None:
    """Parts of one mesh may touch in walls of other shapes; they are refused if they overlap."""

    def of_boxes(*bounds: object) -> BVH:
        meshes = [trimesh.creation.box(bounds=each) for each in bounds]
        return joined(*((m.vertices, m.faces) for m in meshes))

    standing = of_boxes([[0, 0, 0], [4, 4, 1]], [[1, 1, 1], [2, 2, 3]])
    assert standing.volume == 18.0
    assert standing.overlap_volume(box([1.5, 1.5, 0.5], [3, 3, 2])).volume == 1.375
    assert of_boxes([[0, 0, 0], [4, 4, 4]], [[1, 1, 2], [2, 2, 4]]).volume == 62.0
    for crossing in ([[1, 0, 0], [3, 2, 2]], [[1, 1, 0], [3, 3, 2]], [[1, 1, 1], [3, 3, 3]]):
        with pytest.raises(ValueError, match="do not cross themselves"):
            _ = of_boxes([[0, 0, 0], [2, 2, 2]], crossing).volume


def test_volumes_are_rounded_correctly(rng: np.random.Generator) -> None:
    """Volume and centroid of tetrahedra, also far from the origin, thin, and of any winding."""
    for _ in range(50):
        solid = wound(
            rng.normal(size=(1, 4, 3)) * 10.0 ** rng.integers(-9, 9) + rng.choice([0, 1e6])
        )
        a, b, c, d = ([Fraction(x) for x in p] for p in solid[0].tolist())
        u, v, w = (minus(tuple(x), tuple(a)) for x in (b, c, d))
        volume = dot(cross(u, v), w) / 6
        tree = tree_of(solid if rng.random() < 0.5 else solid[:, [0, 2, 1, 3]])
        if volume:
            assert tree.volume == float(abs(volume))
            wanted = [float((a[k] + b[k] + c[k] + d[k]) / 4) for k in range(3)]
            assert np.allclose(tree.centroid, wanted, rtol=1e-15, atol=1e-15 * np.ptp(solid))
    ball = trimesh.creation.icosphere()
    tree = BVH.from_mesh(ball)
    assert tree.area == pytest.approx(ball.area, rel=1e-15)
    assert BVH.from_triangles(ball.vertices * 1e-170, ball.faces).area == 0.0
    assert BVH.from_triangles(ball.vertices * 1e120, ball.faces).volume == np.inf


@pytest.mark.parametrize("bits", [60, 300])
def test_volumes_of_long_boxes(bits: int) -> None:
    """Rays that start above a face, as far as it is long, meet both sides of a box at one t."""
    cube = box([-1, -1, -1], [1, 1, 1])
    for axis in range(3):
        points = cube.vertices * np.where(np.arange(3) == axis, 2.0**bits, 1.0)
        tree = BVH.from_triangles(points, cube.faces)
        assert (Surface.of(tree).outward == 1).all() and tree.volume == 8 * 2.0**bits


HALF = 2.0**1023  # half the least power of two beyond doubles
# Faces with an area that is a double, though products of their sides are not.
THIN = {
    "overflowing side": [[-1.5 * HALF, 0, 0], [1.5 * HALF, 0, 0], [0, 2.0**-900, 0]],
    "overflowing diagonal": [[-HALF, -HALF, 0], [HALF, HALF, 0], [0, 0, 1e-5]],
    "area near the largest double": [[-HALF, 0, 0], [HALF, 0, 0], [HALF, 0.3, 0.4]],
    "no area": [[-1.5 * HALF] * 3, [1.5 * HALF] * 3, [0, 0, 0]],
    "three long sides": [[0, 0, 0], [2.0**1000, 0, 0], [2.0**999, 2.0**-900, 0]],
    "a short side": [[0, 0, 0], [2.0**-900, 0, 0], [2.0**1000, 2.0**1000, 0]],
    "a denormal side": [[0, 0, 0], [5e-324, 0, 0], [2.0**1000, 2.0**1000, 0]],
    "small": [[0, 0, 0], [2.0**-100, 0, 0], [0, 2.0**-100, 0]],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", THIN)
def test_areas_of_thin_faces(name: str) -> None:
    """The area of a thin face is that of rational numbers, also next to a long segment."""
    a, b, c = (tuple(map(Fraction, p)) for p in THIN[name])
    normal = cross(minus(b, a), minus(c, a))
    square = dot(normal, normal)
    shift = 2 * max(0, 100 - square.numerator.bit_length() + square.denominator.bit_length())
    root = isqrt((square.numerator << shift) // square.denominator)
    wanted = float(Fraction(root, 2 << shift // 2))
    segment = [[-HALF, 0, 0], [HALF, 0, 0], [0, 0, 0]]
    for corners in ([THIN[name]], [segment, THIN[name]]):
        points = np.array(corners, np.float64).reshape(-1, 3)
        faces = np.arange(len(points)).reshape(-1, 3)
        area = BVH.from_triangles(points, faces, warn=False).area
        assert area == pytest.approx(wanted, rel=1e-15, abs=0.0)


def test_rounding_of_many_terms() -> None:
    """The bound holds for any number of faces, with three additions each."""
    for faces in (1, 1 << 18, 1 << 20, 50_000_000):
        assert Fraction(rounding_of(faces)) >= Fraction(3 * 3 * faces + 100, 2**106)


@pytest.mark.filterwarnings("error")
def test_areas_beyond_the_largest_double() -> None:
    """A face whose sides are no doubles either has an infinite area."""
    corners = np.array([[-1e308, 0, 0], [1e308, 0, 0], [0, 1e308, 0]])
    assert BVH.from_triangles(corners, [[0, 1, 2]], warn=False).area == np.inf


@pytest.mark.filterwarnings("error")
def test_volumes_whose_terms_underflow(rng: np.random.Generator) -> None:
    """Volume and centroid of tetrahedra with sides of very different orders."""
    for _ in range(500):
        solid = rng.normal(size=(4, 3)) * 2.0 ** rng.integers(-300, 300, 3)
        a, b, c, d = (tuple(map(Fraction, p)) for p in solid.tolist())
        u, v, w = (minus(x, a) for x in (b, c, d))
        volume = dot(cross(u, v), w) / 6
        tree = tree_of(solid[None])
        assert (Surface.of(tree).outward == (1 if volume > 0 else -1)).all()
        assert tree.volume == float(abs(volume))
        wanted = [float((a[k] + b[k] + c[k] + d[k]) / 4) for k in range(3)]
        assert (np.abs(tree.centroid - wanted) <= 1e-14 * np.ptp(solid, axis=0)).all()


@pytest.mark.parametrize("count", [20, pytest.param(400, marks=pytest.mark.long)])
def test_sides_of_extreme_tetrahedra(count: int, rng: np.random.Generator) -> None:
    """Of corners, coordinates and sizes of very different orders, also where areas underflow."""
    for _ in range(count):
        for bits in (
            rng.integers(-300, 300, (4, 1)), rng.integers(-1000, 1000, (4, 3)),
            rng.integers(-600, -500, (1, 1)),
        ):  # fmt: skip
            solid = rng.normal(size=(4, 3)) * 2.0**bits
            a, b, c, d = (tuple(map(Fraction, p)) for p in solid.tolist())
            volume = dot(cross(minus(b, a), minus(c, a)), minus(d, a))
            outward = Surface.of(tree_of(solid[None])).outward
            assert (outward == (1 if volume > 0 else -1)).all() or volume == 0


@pytest.mark.filterwarnings("error")
def test_terms_of_zero_and_beyond_doubles() -> None:
    """Solids that touch at the origin, whose terms are all 0; volumes beyond doubles."""
    for low, high in (([0, 0, 0], [1, 1, 1]), ([0, 0, -1], [1, 1, 1]), ([0, -1, -1], [1, 1, 1])):
        assert box([-1, -1, -1], [0, 0, 0]).overlap_volume(box(low, high)).volume == 0.0
    unit = trimesh.creation.box(bounds=[[0, 0, 0], [1, 1, 1]])
    corners = unit.vertices * 1e110
    large = BVH.from_triangles(corners, unit.faces)
    for shift in ([0, 0, 0], [5e109, 5e109, 0], [np.nextafter(1e110, 0), 0, 0]):
        found = large.overlap_volume(BVH.from_triangles(corners + shift, unit.faces))
        assert found.volume == np.inf and np.isfinite(found.centroid).all(), shift


def test_batches_and_errors() -> None:
    """An entry a transform; NaN for nothing; meshes that bound no solid are refused."""
    wall = box([0, 0, 0], [4, 0.25, 3])
    moves = np.tile(np.eye(4), (2, 2, 1, 1))
    moves[..., 0, 3] = [[0, 3], [4, 9]]
    found = wall.overlap_volume(wall, moves, threads=1)
    assert found.volume.tolist() == [[3.0, 0.75], [0.0, 0.0]]
    assert found.centroid.shape == (2, 2, 3) and found.bounds.shape == (2, 2, 2, 3)
    assert found.mask.tolist() == [[True, True], [False, False]]
    assert np.isnan(found.bounds[1]).all() and found.area[1].tolist() == [0.0, 0.0]
    moved = np.array(moves[0, 1])
    moved[:3, :3] = np.diag([-1.0, 1.0, 1.0])
    assert wall.overlap_volume(wall, moved).volume == 2.25
    sheet = BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], warn=False)
    with pytest.raises(ValueError, match="overlap_volume needs closed meshes"):
        wall.overlap_volume(sheet)
    with pytest.raises(ValueError, match="volume needs closed meshes"):
        _ = sheet.volume
    assert sheet.area == 0.5
    with pytest.raises(TypeError, match="volume needs a BVH over triangles"):
        _ = bvh.BVH.from_spheres([[0, 0, 0]], 1.0).volume
