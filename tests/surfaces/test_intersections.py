"""Where meshes meet: no crack on closed ones, ends on both faces, polygons; sections, thickness."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh import BVH, Intersections, Scene
from meshes.organic import organic
from tests.cases.libraries import NAMES, library, plain
from tests.cases.scans import SCANS
from tests.oracles import overlaps as oracle
from tests.oracles import voxels
from tests.surfaces.test_relations import box


def turned(rng: np.random.Generator) -> np.ndarray:
    """Return a random rotation and a small shift."""
    matrix = trimesh.transformations.random_rotation_matrix(rng.random(3))
    matrix[:3, 3] = rng.normal(size=3) * 0.3
    return matrix


def total(found: Intersections) -> float:
    """Return the length of all segments."""
    return float(np.linalg.norm(np.diff(found.segments, axis=1), axis=2).sum())


def check(found: Intersections) -> None:
    """Check that polylines are the segments, each once, with the same ends bit for bit."""
    steps = [np.stack([line[:-1], line[1:]], axis=1) for line in found.polylines]
    joined = np.concatenate([np.empty((0, 2, 3)), *steps])
    ordered = [np.sort(s.reshape(-1, 6).view("f8,f8,f8").reshape(-1, 2), axis=1).ravel()
               for s in (joined, np.ascontiguousarray(found.segments))]  # fmt: skip
    assert len(joined) == len(found)
    assert np.array_equal(*(np.sort(s.reshape(-1, 2).view("f8,f8,f8,f8,f8,f8"), axis=0)
                            for s in ordered))  # fmt: skip
    for line, closed in zip(found.polylines, found.closed, strict=True):
        assert closed == (line[0] == line[-1]).all()


def test_closed_meshes_in_general_position(rng: np.random.Generator) -> None:
    """Every curve closes, and all ends are near both meshes, on the edge that they name."""
    meshes = [organic(24), (lambda m: (m.vertices, m.faces))(trimesh.creation.icosphere(3))]
    for vertices, faces in meshes:
        v = (vertices - vertices.mean(axis=0)) / np.ptp(vertices)
        tree = BVH.from_triangles(v, faces)
        matrix = turned(rng)
        matrix[:3, 3] *= 0.3
        found = tree.intersections(tree, matrix)
        assert len(found)
        assert found.closed.all()
        check(found)
        w = v @ matrix[:3, :3].T + matrix[:3, 3]
        for side, points in ((0, v), (1, w)):
            other = BVH.from_triangles(points, faces)
            assert other.closest_point(found.segments.reshape(-1, 3)).distance.max() < 1e-14
            ends = found.edges.reshape(-1, 3)
            some = ends[:, 0] == side
            a, b = points[ends[some, 1]], points[ends[some, 2]]
            at = found.segments.reshape(-1, 3)[some]
            off = np.linalg.norm(np.cross(at - a, b - a), axis=1) / np.linalg.norm(b - a, axis=1)
            assert off.max() < 1e-14
        assert np.array_equal(found.faces, found.faces[np.lexsort(found.faces.T[::-1])])


def test_boxes_and_polygons() -> None:
    """Crossing boxes; a face on a face; the same box, of which all faces overlap."""
    unit = box([0] * 3, [1] * 3)
    found = unit.intersections(box([0.5, 0.25, 0.125], [2, 2, 2]))
    assert (len(found.polylines), found.closed.tolist()) == (1, [True])
    assert total(found) == pytest.approx(2 * (0.5 + 0.75 + 0.875))
    found = unit.intersections(box([1, 0.25, 0.25], [2, 0.5, 0.5]))
    assert total(found) == pytest.approx(1.0)
    assert sum(area(p) for p in found.polygons) == pytest.approx(0.0625)
    assert found.polygon_faces.shape == (len(found.polygons), 2)
    found = unit.intersections(box([0] * 3, [1] * 3))
    assert sum(area(p) for p in found.polygons) == pytest.approx(6.0)
    assert len(unit.intersections(box([5] * 3, [6] * 3))) == 0
    assert repr(unit.intersections(box([5] * 3, [6] * 3))).startswith("Intersections(0 segments")


def area(polygon: np.ndarray) -> float:
    """Return the area of a polygon in space."""
    middle = polygon[0]
    turns = np.cross(polygon[1:-1] - middle, polygon[2:] - middle)
    return float(np.linalg.norm(turns.sum(axis=0)) / 2)


def check_against_rationals(found: Intersections, trees: tuple[BVH, BVH]) -> None:
    """Compare segments and polygons with all pairs of faces, in rational numbers."""
    a, b = ([t.vertices[f].tolist() for f in t.faces] for t in trees)
    shared = {(i, j): oracle.common(x, y) for i, x in enumerate(a) for j, y in enumerate(b)}
    polygons = {pair for pair, corners in shared.items() if len(corners) > 2}
    assert polygons == set(map(tuple, found.polygon_faces.tolist()))
    wanted = {frozenset(corners) for corners in shared.values() if len(corners) == 2}
    assert len(found) == len(wanted)
    for pair, segment in zip(found.faces.tolist(), found.segments.tolist(), strict=True):
        ends = [[x / p[3] for x in p[:3]] for p in shared[tuple(pair)]]
        # Which of the ends is the first is free.
        assert sorted(segment) == pytest.approx(np.array(sorted(ends)), rel=4e-16)


@pytest.mark.parametrize("exponent", [-900, 0, 900])
def test_crossings_that_doubles_do_not_decide(exponent: int, rng: np.random.Generator) -> None:
    """Boxes that touch but for rounding, and boxes of extreme sizes: as in rational numbers."""
    unit = trimesh.creation.box()
    corners, faces = np.array(unit.vertices), unit.faces
    crossing = [
        BVH.from_triangles((corners + shift) * 2.0**exponent, faces)
        for shift in (np.zeros(3), np.array([0.5, 0.3, 0.2]))
    ]
    found = crossing[0].intersections(crossing[1])
    assert (len(found), found.closed.tolist()) == (15, [True])
    for _ in range(10):
        turn = trimesh.transformations.random_rotation_matrix(rng.random(3))[:3, :3]
        places = (corners @ turn, (corners + [0.3, 0.2, 1.0]) @ turn)
        a, b = (BVH.from_triangles(v * 2.0**exponent, faces) for v in places)
        found = a.intersections(b)
        check_against_rationals(found, (a, b))
        check(found)
        assert found.closed.all() or len(found.polygons)


def test_junctions_closed_by_faces_without_area(rng: np.random.Generator) -> None:
    """A point on a long edge and on a half of it has one name: curves close there, too."""
    vertices = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4], [2, 0, 0], [3, 0, 0.0]])
    around = [[0, 2, 1], [1, 2, 3], [2, 0, 3]]
    meshes = [[*around, [0, 1, 3]], [*around, [0, 4, 3], [4, 1, 3], [0, 1, 4]],
              [*around, [0, 4, 3], [4, 5, 3], [5, 1, 3], [0, 5, 4], [0, 1, 5]]]  # fmt: skip
    shape = np.array([[0, -1, -1], [0, 9, -1], [0, -1, 9], [-4, -1, -1]], float)
    for at in [1.0, 2.0, 2.5, 3.0, *rng.uniform(0.1, 3.9, 5)]:
        cutter = BVH.from_triangles(
            shape + [at, 0, 0], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]
        )
        for count, faces in enumerate(meshes):
            tree = BVH.from_triangles(vertices, faces)
            for found in (tree.intersections(cutter), cutter.intersections(tree)):
                assert len(found)
                assert found.closed.all(), (at, count)
                check(found)
                points = np.unique(found.segments.reshape(-1, 3), axis=0)
                assert len(np.unique(found._ends)) == len(points)


def test_voxels(rng: np.random.Generator) -> None:
    """Contacts of all kinds: each segment is in both faces that it names, exactly."""
    for _ in range(30):
        trees = []
        for _ in range(2):
            v, f = voxels.surface(voxels.random_voxels(rng, 3), rng, merged=rng.random() < 0.5)
            trees.append(BVH.from_triangles(v * 2.0, f))
        found = trees[0].intersections(trees[1])
        check(found)
        for segment, (i, j) in zip(found.segments.tolist(), found.faces.tolist(), strict=True):
            for tree, k in ((trees[0], i), (trees[1], j)):
                corners = tree.vertices[tree.faces[k]].tolist()
                for end in segment:
                    assert oracle.triangles_touch([end] * 3, corners)


def test_self_intersections(rng: np.random.Generator) -> None:
    """Two bodies of one mesh meet themselves as two meshes meet; a clean mesh does not."""
    ball = trimesh.creation.icosphere(2)
    matrix = turned(rng)
    other = ball.copy().apply_transform(matrix)
    both, apart = trimesh.util.concatenate([ball, other]), BVH.from_mesh(ball).intersections(other)
    # In any order of faces.
    for faces in (both.faces, rng.permutation(both.faces)):
        found = BVH.from_triangles(both.vertices, faces).intersections()
        assert found.closed.all()
        assert len(found) == len(apart)
        assert total(found) == pytest.approx(total(apart))
    assert len(BVH.from_mesh(ball).intersections()) == 0


@pytest.mark.parametrize("at", [0.0, 0.25, 0.5, 1.0])
def test_sections(at: float, rng: np.random.Generator) -> None:
    """Closed curves wherever the plane is, also through vertices and faces; trimesh's length."""
    for mesh in (trimesh.creation.box(bounds=[[0] * 3, [1] * 3]), trimesh.creation.icosphere(3)):
        tree = BVH.from_mesh(mesh)
        found = tree.section([0, 0, 1, -at])
        assert found.closed.all()
        check(found)
        if 0.0 < at < 1.0:
            wanted = mesh.section([0, 0, 1], [0, 0, at]).length
            assert total(found) == pytest.approx(wanted, rel=1e-9)
            assert np.abs(found.segments[:, :, 2] - at).max() < 1e-15
    plane = np.append(rng.normal(size=3), 0.1)
    vertices, faces = organic(32)
    tree = BVH.from_triangles(vertices, faces)
    cut = tree.section(plane)
    assert cut.closed.all()
    assert (np.abs(cut.segments @ plane[:3] + plane[3]) < 1e-13).all()
    heights = [sum((Fraction(a) * Fraction(b) for a, b in zip(v, plane.tolist(), strict=False)),
                   Fraction(plane[3])) >= 0 for v in vertices.tolist()]  # fmt: skip
    above = np.array(heights)[faces]
    crossing = np.flatnonzero(above.any(axis=1) & ~above.all(axis=1))
    assert np.sort(cut.faces[:, 0]).tolist() == crossing.tolist()
    with pytest.raises(ValueError, match="plane must be"):
        tree.section([0, 0, 0, 1])


def test_sections_where_an_edge_has_four_faces(rng: np.random.Generator) -> None:
    """Solids that meet in edges: every line closes, around its own solid, with it on the left."""
    for n in (2, 3, 4):
        cells = frozenset((i, i, 0) for i in range(n))
        cut = BVH.from_triangles(*voxels.surface(cells, rng)).section([0, 0, 1, -0.5])
        assert cut.closed.tolist() == [True] * n
        assert sorted(np.ptp(line, axis=0).tolist() for line in cut.polylines) == [[1, 1, 0]] * n
    for _ in range(40):
        cells = voxels.random_voxels(rng, 4)
        vertices, faces = voxels.surface(cells, rng)
        cut = BVH.from_triangles(vertices, faces).section([0, 0, 1, -0.5])
        assert cut.closed.all()
        check(cut)
        areas = [0.5 * np.cross(line[:-1], line[1:])[:, 2].sum() for line in cut.polylines]
        assert sum(areas) == pytest.approx(sum(cell[2] == 0 for cell in cells))
        # Whichever way faces are wound, and wherever the plane is.
        mixed = np.where(rng.random(len(faces))[:, None] < 0.3, faces[:, ::-1], faces)
        for plane in ([1, 0, 0, -1.0], [0, -2, 0, 3.0], [*rng.normal(size=3), -1.0]):
            cut = BVH.from_triangles(vertices, mixed).section(plane)
            assert cut.closed.all()
            check(cut)


def test_sections_by_many_planes(rng: np.random.Generator) -> None:
    """Bit for bit those of each plane, in any shape; for parallel planes and others."""
    tree = BVH.from_triangles(*organic(32))
    planes = np.tile(np.append(rng.normal(size=3), 0.0), (6, 1))
    planes[:, 3] = [0.0, 0.1, -0.2, 9.0, -0.1, 1e300]
    planes[3:5, :3] = rng.normal(size=3)
    cuts = tree.section(planes.reshape(2, 3, 4))
    assert cuts.shape == (2, 3) and cuts.counts.shape == (2, 3) and len(cuts) == 6
    assert cuts.offsets[-1] == len(cuts.segments) == len(cuts.faces) > 0
    for k, (plane, cut) in enumerate(zip(planes, cuts, strict=True)):
        alone = tree.section(plane)
        assert cut.plane.tolist() == plane.tolist()
        for name in ("segments", "faces", "edges"):
            assert getattr(cut, name).tobytes() == getattr(alone, name).tobytes(), name
        some = slice(*cuts.offsets[k : k + 2].tolist())
        assert (cuts.segments[some] == alone.segments).all()
        assert cut.area == alone.area
    assert len(tree.section(np.empty((0, 4)))) == 0
    for wrong in ([[0, 0, 1, 0], [0, 0, 0, 1]], [[0, 0, 1]], [[0, 0, np.nan, 1]]):
        with pytest.raises(ValueError, match="planes must be"):
            tree.section(wrong)
    many = np.tile([0.0, 0.0, 1.0, 0.0], (50, 1))
    many[7, 2] = 0.0
    with pytest.raises(ValueError, match=r"got \[0.0, 0.0, 0.0, 0.0\] in row 7$"):
        tree.section(many)
    with pytest.raises(ValueError, match=r"got the shape \(50, 3\)$"):
        tree.section(many[:, :3])


def test_loops_of_sections(rng: np.random.Generator, tmp_path: Any) -> None:
    """Areas, holes and what is in them, whichever way faces and planes point; drawings."""
    options = np.get_printoptions()
    shells = [trimesh.creation.icosphere(4, radius=r) for r in (1.0, 0.75, 0.5)]
    apart = trimesh.creation.box(bounds=[[2, 0, -1], [3, 2, 1]])
    mesh = trimesh.util.concatenate([*shells, apart])
    faces = np.where(rng.random(len(mesh.faces))[:, None] < 0.5, mesh.faces[:, ::-1], mesh.faces)
    tree = BVH.from_triangles(mesh.vertices, faces, warn=False)
    for plane in ([0, 0, 1, 0.0], [0, 0, -3, 0.0], [0.0, 1e-3, 5.0, 0.0]):
        cut = tree.section(plane)
        rings = np.pi * np.array([1.0, 0.75**2, 0.5**2])
        assert sorted(cut.areas) == pytest.approx(sorted([2, *(rings * [1, -1, 1])]), rel=5e-3)
        assert cut.area == cut.areas.sum()
        order = np.argsort(-np.abs(cut.areas))
        ball, box_, hollow, core = (order[k] for k in (0, 1, 2, 3))
        assert cut.parents[[ball, box_, hollow, core]].tolist() == [-1, -1, ball, hollow]
        assert cut.axes @ cut.axes.T == pytest.approx(np.eye(2))
        normal = np.array(plane[:3]) / np.linalg.norm(plane[:3])
        assert np.cross(*cut.axes) == pytest.approx(normal)
        assert cut.to_svg(tmp_path / "cut.svg") == (tmp_path / "cut.svg").read_text()
        assert cut.to_svg().count("M ") == 4
        cut.to_dxf(tmp_path / "cut.dxf")
        drawing = trimesh.load_path(tmp_path / "cut.dxf")
        layers = sorted(str(entity.layer).lower() for entity in drawing.entities)
        assert layers == ["holes", "outer", "outer", "outer"]
        flat = np.concatenate(cut.loops) @ cut.axes.T
        assert drawing.bounds == pytest.approx(np.stack([flat.min(axis=0), flat.max(axis=0)]))
    sheet = BVH.from_triangles([[0, 0, -1], [1, 0, 1], [0, 1, 1]], [[0, 1, 2]]).section(
        [0, 0, 1, 0]
    )
    assert sheet.loops == [] and sheet.area == 0.0 and 'fill="none"' in sheet.to_svg()
    assert "open" in sheet.to_dxf()
    # trimesh's exporter changes NumPy's print options.
    assert np.get_printoptions() == options
    assert tree.section([0, 0, 1, 9]).to_svg().count("path") == 0


def test_sections_of_scenes(rng: np.random.Generator) -> None:
    """Those of one mesh, with the faces and instances that are cut; reflected instances, too."""
    scene, mesh = Scene(), trimesh.creation.icosphere(2)
    maps = np.tile(np.eye(4), (3, 1, 1))
    maps[:, 0, 3] = [0.0, 3.0, 6.0]
    maps[1, :3, :3] = np.diag([1.0, -2.0, 1.0])
    ids = scene.add_many(mesh, maps)
    cuts = scene.section([[0, 0, 1, -0.1], [1, 0, 0, -3.2]])
    assert set(cuts[0].instance_id.tolist()) == set(ids) and set(cuts[1].instance_id) == {ids[1]}
    assert len(cuts[0].loops) == 3 and (cuts[0].areas > 0).all()
    assert cuts.instance_id.tolist() == [i for cut in cuts for i in cut.instance_id.tolist()]
    for loop in cuts[0].loops:
        # The solid is on the left.
        assert 0.5 * np.cross(loop[:-1], loop[1:])[:, 2].sum() > 0.0
    heights = mesh.vertices[mesh.faces[cuts[0].faces[:, 0]], 2]
    assert (heights.min(axis=1) < 0.1).all() and (heights.max(axis=1) >= 0.1).all()
    scene.set_visible(ids[0], False)
    assert set(scene.section([0, 0, 1, -0.1]).instance_id) == set(ids[1:])


def test_thickness(rng: np.random.Generator) -> None:
    """Plates, balls, shells; at faces and at points; open meshes and flat faces."""
    plate = BVH.from_mesh(trimesh.creation.box([4, 4, 0.5]))
    assert sorted(set(plate.thickness().round(12))) == [0.5, 4.0]
    assert plate.thickness(0) in (0.5, 4.0)
    assert plate.thickness(points_at=[[0.3, 0.2, 0.5]]).tolist() == [0.5]
    ball = BVH.from_mesh(trimesh.creation.icosphere(3))
    assert ball.thickness() == pytest.approx(2.0, rel=0.01)
    # A ball that touches the middle of a facet is held by the facets around it.
    assert ball.thickness(method="sphere") == pytest.approx(2.0, rel=0.15)
    assert (ball.thickness(method="sphere") <= ball.thickness() * (1 + 1e-9)).all()
    sheet = BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 1]])
    found = sheet.thickness()
    assert np.isinf(found[0])
    assert np.isnan(found[1])
    for wrong, message in (
        ({"faces": 5}, "faces must be in"), ({"method": "x"}, "method"),
        ({"faces": 0, "points_at": [0, 0, 0]}, "not be given together"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            sheet.thickness(**wrong)


@pytest.mark.parametrize("method", ["ray", "sphere"])
def test_thickness_whichever_way_normals_point(method: Any, rng: np.random.Generator) -> None:
    """An inverted ball, balls in balls, faces turned at random, a wall that two boxes share."""
    outer, inner = (trimesh.creation.icosphere(3, radius=r) for r in (1.0, 0.9))
    ball = BVH.from_mesh(outer).thickness(method=method)
    turned = outer.faces.copy()
    some = rng.random(len(turned)) < 0.5
    turned[some] = turned[some, ::-1]
    for faces in (outer.faces[:, ::-1], turned):
        tree = BVH.from_triangles(outer.vertices, faces, warn=False)
        assert tree.thickness(method=method) == pytest.approx(ball, rel=1e-12)
    for core in (inner, inner.copy()):
        found = BVH.from_mesh(trimesh.util.concatenate([outer, core])).thickness(method=method)
        assert found == pytest.approx(0.1, rel=0.1)
        inner.invert()
    # The wall has equal faces in a cube and its mirror image.
    cubes = [trimesh.creation.box(bounds=[[0, 0, 0], [1, 1, 1]]) for _ in range(2)]
    cubes[1].vertices *= -1.0, 1.0, 1.0
    cubes[1].apply_translation([2.0, 0.0, 0.0])
    both = BVH.from_mesh(trimesh.util.concatenate(cubes))
    points = [[0, 0.5, 0.5], [0.9, 0, 0.5], [2, 0.5, 0.5]]
    found = both.thickness(points_at=points, method=method)
    assert found == pytest.approx([2, 1, 2] if method == "ray" else [1, 1, 1])
    assert set(both.thickness().round(12)) == {1.0, 2.0}
    # Each cube twice: nothing is inside.
    none = BVH.from_mesh(trimesh.util.concatenate(cubes * 2))
    assert np.isnan(none.thickness(method=method)).all()


@pytest.mark.parametrize("name", NAMES)
def test_thickness_in_libraries(name: str) -> None:
    """Arrays of other libraries give theirs."""
    plate = BVH.from_mesh(trimesh.creation.box([4, 4, 0.5]))
    with library(name) as arrays:
        found = plate.thickness(points_at=arrays.make(np.array([[0.1, 0.2, 0.25]])))
        assert isinstance(found, arrays.kind)
        assert plain(found).tolist() == [0.5]


@pytest.mark.long
@pytest.mark.parametrize("name", ["ogre.ply", "spot.ply", "fandisk.ply", "stanford-bunny.ply"])
def test_scans(name: str, rng: np.random.Generator) -> None:
    """Real scans: curves of the closed ones close."""
    if not (SCANS / name).is_file():
        pytest.skip("no scans")
    tree = BVH.from_file(SCANS / name)
    vertices, faces = tree.vertices, tree.faces
    matrix = turned(rng)
    matrix[:3, 3] = vertices.mean(axis=0) - matrix[:3, :3] @ vertices.mean(axis=0)
    found = tree.intersections(tree, matrix)
    check(found)
    if trimesh.Trimesh(vertices, faces, process=False).is_watertight:
        assert found.closed.all()
