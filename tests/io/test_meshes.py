"""Meshes of other libraries and files: the same triangles, and the faces that they were."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh.io import mesh_files
from bvh.io.meshes import surface_of
from bvh.scene.files import loading
from bvh.scene.scene import Scene
from tests.commands import Run, strict_json
from tests.oracles import brute

Rng = np.random.Generator

# A cube of six quads, wound outward.
CUBE = np.array([(x, y, z) for z in (0, 1) for y in (0, 1) for x in (0, 1)], float)
QUADS = np.array(
    [[0, 2, 3, 1], [4, 5, 7, 6], [0, 1, 5, 4], [2, 6, 7, 3], [0, 4, 6, 2], [1, 3, 7, 5]]
)
PAIRED = np.repeat(np.arange(6), 2).tolist()


def ball(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return a closed mesh of quads, bent ones: a cube blown up and shaken."""
    n = 8
    u = np.linspace(-1.0, 1.0, n + 1)
    points, faces = [], []
    for axis in range(3):
        for side in (-1.0, 1.0):
            a, b = np.meshgrid(u, u * side, indexing="ij")
            face = np.empty(((n + 1) ** 2, 3))
            face[:, axis], face[:, (axis + 1) % 3] = side, a.ravel()
            face[:, (axis + 2) % 3] = b.ravel()
            k = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
            quads = np.stack([k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]], -1).reshape(-1, 4)
            faces.append(quads + len(points) * (n + 1) ** 2)
            points.append(face)
    whole, place = np.unique(np.concatenate(points), axis=0, return_inverse=True)
    whole /= np.linalg.norm(whole, axis=1)[:, None]
    return whole + 0.01 * rng.normal(size=whole.shape), place.reshape(-1)[np.concatenate(faces)]


def test_a_closed_mesh_of_quads_stays_closed(rng: Rng) -> None:
    """Hits are those of brute force; from inside none is lost; and faces are the quads."""
    points, quads = ball(rng)
    tree = bvh.BVH.from_mesh((points, quads))
    assert trimesh.Trimesh(tree.vertices, tree.faces, process=False).is_watertight
    assert tree.face_ids.dtype == np.int32 and not tree.face_ids.flags.writeable
    assert np.array_equal(tree.face_ids, np.repeat(np.arange(len(quads)), 2))
    origins = 0.1 * rng.normal(size=(600, 3))
    corners = points[quads[rng.integers(0, len(quads), 600)]]
    aims = [corners[:, 0], corners[:, :2].mean(axis=1), 0.5 * (corners[:, 0] + corners[:, 2])]
    directions = np.concatenate(aims) - np.tile(origins, (3, 1))
    hits = tree.closest_hit(np.tile(origins, (3, 1)), directions)
    t, prim = brute.closest_hit(tree, np.tile(origins, (3, 1)), directions)
    assert hits.mask.all() and np.array_equal(hits.t, t) and np.array_equal(hits.prim_id, prim)
    assert np.array_equal(tree.face_of(hits.prim_id), hits.prim_id // 2)
    plain = bvh.BVH.from_triangles(points, tree.faces)
    again = plain.closest_hit(np.tile(origins, (3, 1)), directions)
    assert np.array_equal(again.t, hits.t) and np.array_equal(again.prim_id, hits.prim_id)
    assert tree.contains(origins[:5]).all()


def test_face_ids_stay(tmp_path: Path) -> None:
    """Through copies, pickles, refits, files and scenes."""
    tree = bvh.BVH.from_mesh((CUBE, QUADS))
    tree.refit(CUBE + 1.0)
    tree.save(tmp_path / "cube.bvh")
    saved = (tmp_path / "cube.bvh").read_bytes()
    copies = [copy.copy(tree), copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))]
    for mmap in (False, True):
        for verify in (False, True):
            copies.append(bvh.load(tmp_path / "cube.bvh", mmap=mmap, verify=verify))  # type: ignore[arg-type]
    scene = Scene()
    scene.add(tree)
    scene.add((CUBE, QUADS[:, :3]))
    scene.save(tmp_path / "scene.bvh")
    again = bvh.load(tmp_path / "scene.bvh")
    assert isinstance(again, Scene) and again[1].child.face_ids is None
    for one in (*copies, again[0].child, copy.deepcopy(scene)[0].child):
        assert one.face_ids.tolist() == PAIRED and not one.face_ids.flags.writeable
        one.save(tmp_path / "again.bvh")
        assert (tmp_path / "again.bvh").read_bytes() == saved
    plain = bvh.BVH.from_triangles(CUBE, QUADS[:, :3])
    plain.save(tmp_path / "plain.bvh")
    assert plain.face_ids is None and bvh.load(tmp_path / "plain.bvh").face_ids is None  # type: ignore[union-attr]


def test_files_with_face_ids_are_not_trusted(tmp_path: Path) -> None:
    """Every byte counts, numbers below 0 are refused, and so is the old version with face ids."""
    from tests.cases.saved_trees import Parts, signed_header

    tree = bvh.BVH.from_mesh((CUBE, QUADS))
    tree.save(tmp_path / "cube.bvh")
    saved = (tmp_path / "cube.bvh").read_bytes()
    parts = Parts(saved)
    assert parts.joined() == saved
    old = bytearray(saved)
    old[8] = 1
    parts.arrays["face_ids"][3] = -7
    spoiled = bytearray(saved)
    spoiled[-64] ^= 1
    for data, match in (
        (parts.joined(), "is not valid: a face has a number below 0"),
        (bytes(signed_header(old)), "has format version 1, of bvh 0.2.0 or before"),
        (bytes(spoiled), "checksum of its array 'face_ids'"),
    ):
        (tmp_path / "bad.bvh").write_bytes(data)
        with pytest.raises(ValueError, match=match):
            bvh.load(tmp_path / "bad.bvh")
        with pytest.raises(ValueError, match=match):
            assert bvh.load(tmp_path / "bad.bvh", mmap=True).face_ids is not None  # type: ignore[union-attr]


def test_another_width_keeps_face_ids(tmp_path: Path) -> None:
    """A tree that is built again has them, too."""
    from tests.cases.saved_trees import Parts

    tree = bvh.BVH.from_mesh((CUBE, QUADS))
    tree.save(tmp_path / "cube.bvh")
    width = 4 if loading.WIDTH != 4 else 8
    (tmp_path / "cube.bvh").write_bytes(
        Parts((tmp_path / "cube.bvh").read_bytes()).joined(width=width)
    )
    again = bvh.load(tmp_path / "cube.bvh")
    assert again.face_ids.tolist() == PAIRED  # type: ignore[union-attr]


def test_face_of() -> None:
    """A number or an array, misses stay; what is no triangle is refused."""
    tree, plain = bvh.BVH.from_mesh((CUBE, QUADS)), bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    assert tree.face_of(5) == 2 and isinstance(tree.face_of(5), int) and tree.face_of(-1) == -1
    found = tree.face_of([[0, 11], [-1, 4]])
    assert found.tolist() == [[0, 5], [-1, 2]] and found.dtype == np.int32
    assert plain.face_of([0, -1]).tolist() == [0, -1] and plain.face_ids is None
    for bad, error in ((12, ValueError), (-2, ValueError), (0.5, TypeError), ([3, 99], ValueError)):
        with pytest.raises(error, match="prim_id must be"):
            tree.face_of(bad)
    assert tree.face_of([]).tolist() == plain.face_of([]).tolist() == []
    empty = bvh.BVH.from_mesh((np.empty((0, 3)), np.empty((0, 4), int)))
    assert len(empty) == 0 and empty.face_of([-1]).tolist() == [-1]


def test_scenes_and_picks() -> None:
    """Each hit has the face of its own mesh; a pick tells it, the same mesh is one tree."""
    scene, mesh = Scene(), (CUBE, QUADS)
    shift = np.eye(4)
    shift[0, 3] = 5.0
    scene.add(mesh)
    scene.add(mesh, shift)
    scene.add((CUBE + [10, 0, 0], QUADS[:, :3]))
    assert len(scene.leaves.trees) == 2
    origins = np.array([[0.3, 0.6, 9], [5.3, 0.6, 9], [10.3, 0.1, 9], [99, 0, 9]])
    hits = scene.closest_hit(origins, [0, 0, -1])
    assert scene.face_of(hits.leaf, hits.prim_id).tolist() == [1, 1, 1, -1]
    one = scene.closest_hit(origins[1], [0, 0, -1])
    assert scene.face_of(one.leaf, one.prim_id) == 1
    for leaf, prim in ((9, 0), (-2, -1), (-1, 0), (0, 12)):
        with pytest.raises(ValueError, match="must be"):
            scene.face_of(leaf, prim)
    camera = bvh.Camera.orthographic([0.3, 0.6, 9], [0.3, 0.6, 0], [0, 1, 0], 4.0, 100, 100)
    pick = scene.pick(camera, 50, 50)
    assert pick is not None and pick.prim_id in (2, 3) and pick.face_id == 1
    assert pick.as_dict()["face_id"] == 1


def assert_cube(mesh: Any, ids: list[int], volume: float = 1.0) -> None:
    """A mesh is the unit cube, its faces numbered so, wound outward."""
    tree = bvh.BVH.from_mesh(mesh)
    whole = trimesh.Trimesh(tree.vertices, tree.faces, process=False)
    merged = trimesh.Trimesh(tree.vertices, tree.faces)
    assert merged.is_watertight and whole.volume == pytest.approx(volume)
    assert tree.face_of(np.arange(len(tree))).tolist() == ids


@pytest.mark.parametrize(
    "faces", [QUADS, QUADS.tolist(), tuple(map(tuple, QUADS)), QUADS.astype("u2")]
)
def test_pairs(faces: Any) -> None:
    """Rows of four, lists, tuples, any integers; lists of several lengths; whatever has both."""
    assert_cube((CUBE, faces), PAIRED)
    ragged = [*QUADS[:5].tolist(), [1, 3, 7], [1, 7, 5]]
    assert_cube((CUBE.tolist(), ragged), [*PAIRED[:10], 5, 6])
    assert_cube((CUBE, np.array(ragged, object)), [*PAIRED[:10], 5, 6])

    class Mesh:
        vertices, faces = CUBE, QUADS

    assert_cube(Mesh(), PAIRED)
    assert surface_of((CUBE, QUADS[:, :3])).face_ids is None


def test_pyvista() -> None:
    """PolyData by the numbers of its cells, strips and lines among them; grids; blocks."""
    pv = pytest.importorskip("pyvista")
    assert_cube(pv.PolyData(CUBE, np.column_stack([np.full(6, 4), QUADS]).ravel()), PAIRED)
    mixed = [4, *QUADS[0], 4, *QUADS[1], 4, *QUADS[2], 4, *QUADS[3], 4, *QUADS[4]]
    strip = [4, 1, 3, 5, 7]
    poly = pv.PolyData(CUBE, faces=mixed, lines=[2, 0, 7, 2, 1, 6], strips=strip)
    assert_cube(poly, [k + 2 for k in PAIRED])
    assert_cube(pv.PolyData(CUBE, faces=[*mixed, 3, 1, 3, 7, 3, 1, 7, 5]), [*PAIRED[:10], 5, 6])
    grid = pv.ImageData(dimensions=(3, 3, 2), spacing=(0.5, 0.5, 1.0))
    owners = bvh.BVH.from_mesh(grid).face_ids
    assert owners is not None and np.bincount(owners).tolist() == [8, 8, 8, 8]
    assert_cube(grid, owners.tolist())
    assert_cube(grid.cast_to_structured_grid(), owners.tolist())
    assert_cube(grid.cast_to_unstructured_grid(), owners.tolist())
    blocks = pv.MultiBlock([pv.PolyData(CUBE, faces=mixed), None, pv.MultiBlock([poly])])
    ids = bvh.BVH.from_mesh(blocks).face_ids
    assert ids is not None and ids.tolist() == [*PAIRED[:10], *(k + 7 for k in PAIRED)]
    assert len(bvh.BVH.from_mesh(pv.PolyData())) == 0
    with pytest.raises(TypeError, match=r"mesh must have cells, got pyvista's Plotter|Camera"):
        bvh.BVH.from_mesh(pv.Camera())


def test_open3d() -> None:
    """The legacy mesh and the tensor one; coordinates of float32 are those doubles."""
    o3d = pytest.importorskip("open3d")
    legacy = o3d.geometry.TriangleMesh.create_icosahedron()
    tensor = o3d.t.geometry.TriangleMesh.from_legacy(legacy)
    for mesh, points in (
        (legacy, np.asarray(legacy.vertices)),
        (tensor, tensor.vertex.positions.numpy().astype(np.float64)),
    ):
        tree = bvh.BVH.from_mesh(mesh)
        assert tree.face_ids is None and np.array_equal(tree.vertices, points)
        assert np.array_equal(tree.faces, np.asarray(legacy.triangles))
    for empty in (o3d.geometry.TriangleMesh(), o3d.t.geometry.TriangleMesh()):
        assert len(bvh.BVH.from_mesh(empty)) == 0
    with pytest.raises(TypeError, match="mesh must have triangles, got open3d's VoxelGrid"):
        bvh.BVH.from_mesh(o3d.geometry.VoxelGrid())


def test_meshio(tmp_path: Path, run: Run) -> None:
    """Blocks counted through; the outside of solids; files that meshio alone reads."""
    meshio = pytest.importorskip("meshio")
    blocks = [("line", [[0, 7]]), ("quad", QUADS[:4]), ("triangle", [[0, 4, 6], [0, 6, 2]])]
    mesh = meshio.Mesh(CUBE, [*blocks, ("polygon", [QUADS[5]])])
    ids = [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 7]
    assert_cube(mesh, ids)
    # Five tetrahedra in a cube: each facet of the inner one is another's, too.
    tetra = np.array([[0, 1, 2, 4], [3, 1, 2, 7], [5, 1, 4, 7], [6, 2, 4, 7], [1, 2, 4, 7]])
    assert_cube(meshio.Mesh(CUBE, [("tetra", tetra)]), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    skin = bvh.BVH.from_mesh(meshio.Mesh(CUBE, [("tetra", tetra)])).faces
    both = meshio.Mesh(CUBE, [("tetra", tetra), ("triangle", skin)])
    assert_cube(both, list(range(5, 17)))
    hexahedron = [[0, 1, 3, 2, 4, 5, 7, 6]]
    meshio.Mesh(CUBE, [("hexahedron", hexahedron)]).write(tmp_path / "cube.vtu")
    assert_cube(mesh_files.read_file(tmp_path / "cube.vtu", "a mesh"), [0] * 12)
    scene = bvh.load_scene(tmp_path / "cube.vtu")
    assert scene[0].name == "cube" and len(scene[0].child) == 12
    points, faces, _ = mesh_files.read_file(tmp_path / "cube.vtu", "a mesh")
    assert trimesh.Trimesh(points, faces, process=False).is_watertight
    code, out, _ = run("info", "cube.vtu", "--json")
    assert code == 0 and strict_json(out)["triangles"] == 12
    (tmp_path / "bad.vtu").write_text("<VTKFile>")
    with pytest.raises(ValueError, match=r"cannot read .*bad\.vtu as a scene"):
        bvh.load_scene(tmp_path / "bad.vtu")
    with pytest.raises(ValueError, match="cells must index the 8 vertices"):
        bvh.BVH.from_mesh(meshio.Mesh(CUBE, [("tetra", tetra + 5)]))
    with pytest.raises(TypeError, match="cells must be integers"):
        bvh.BVH.from_mesh(meshio.Mesh(CUBE, [("tetra", 1.0 * tetra)]))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_cells_face_outward(scale: float) -> None:
    """At any size, whichever way their corners run."""
    meshio = pytest.importorskip("meshio")
    for cell in ([0, 1, 2, 4], [0, 2, 1, 4]):
        tree = bvh.BVH.from_mesh(meshio.Mesh(scale * CUBE, [("tetra", [cell])]))
        rays = scale * np.array([[0.1, 0.2, 9.0], [0.1, 0.2, -9.0]]), [[0, 0, -1], [0, 0, 1]]
        assert tree.closest_hit(*rays).front.all()
    for bad in (np.nan, np.inf):
        points = CUBE.copy()
        points[7] = bad
        cells = [("hexahedron", [[0, 1, 3, 2, 4, 5, 7, 6]])]
        # The cell is ignored: its neighbour's facet towards it is outside.
        below = ("hexahedron", [[8, 9, 11, 10, 0, 1, 3, 2]])
        points = np.concatenate([points, CUBE[:4] - [0, 0, 1]])
        tree = bvh.BVH.from_mesh(meshio.Mesh(points, [*cells, below]))
        assert len(tree) == 18 and tree.stats().ignored == 6


def test_odd_cells() -> None:
    """Corners in one place, several types of integers, polygons on facets, unknown kinds."""
    meshio = pytest.importorskip("meshio")
    # Two wedges, and two more on top of them that call themselves hexahedra.
    tower = np.concatenate([CUBE, CUBE[4:] + [0, 0, 1]])
    wedges = ("wedge", np.array([[0, 1, 2, 4, 5, 6], [1, 3, 2, 5, 7, 6]], np.uint64))
    folded = ("hexahedron", np.array([[4, 5, 6, 6, 8, 9, 10, 10], [5, 7, 6, 6, 9, 11, 10, 10]]))
    assert len(bvh.BVH.from_mesh(meshio.Mesh(tower, [wedges, folded]))) == 2 + 2 + 2 * 8
    cube = ("hexahedron", [[0, 1, 3, 2, 4, 5, 7, 6]])
    lid = ("polygon", [[4, 5, 7, 6]])
    assert_cube(meshio.Mesh(CUBE, [cube, lid]), [0] * 10 + [1, 1])
    wide = ("polygon", [[*range(8)]])
    assert len(bvh.BVH.from_mesh(meshio.Mesh(CUBE, [cube, wide]))) == 12 + 6
    mixed = meshio.Mesh(CUBE, [("polygon", QUADS[:5]), ("polygon", [[1, 3, 7], [1, 7, 5]])])
    assert_cube(mixed, [*PAIRED[:10], 5, 6])
    lagrange = [("VTK_LAGRANGE_HEXAHEDRON", [[0, 1, 3, 2, 4, 5, 7, 6]])]
    assert_cube(meshio.Mesh(CUBE, lagrange), [0] * 12)
    unknown = meshio.Mesh(CUBE, [("polyhedron8", [[[0, 1, 2], [1, 2, 3]]]), ("quad", QUADS)])
    with pytest.warns(bvh.BVHWarning, match="1 cells of the kind 'polyhedron8' are left out"):
        assert_cube(unknown, [k + 1 for k in PAIRED])


def test_cells_of_pyvista() -> None:
    """All examples of cells have the surface that PyVista finds, curved ones as if straight."""
    pv = pytest.importorskip("pyvista")
    from pyvista import examples

    flat = ("Triangle", "Quadrilateral", "Pixel", "TriangleStrip", "Polygon")
    straight = ("Tetrahedron", "Hexahedron", "Voxel", "Wedge", "Pyramid", "HexagonalPrism")
    for name in (*flat, *straight, "BezierHexahedron", "LagrangeTriangle"):
        cell = getattr(examples.cells, name)()
        surface = bvh.BVH.from_mesh(cell)
        told = trimesh.Trimesh(surface.vertices, surface.faces, process=False)
        assert told.area == pytest.approx(cell.extract_surface().area, rel=1e-6), name
        assert name in flat or name == "LagrangeTriangle" or told.is_watertight
    counts = {
        "PentagonalPrism": 16, "BezierWedge": 8, "LagrangeQuadrilateral": 2, "LagrangeWedge": 8,
        "BiQuadraticQuadraticHexahedron": 12, "BiQuadraticQuadraticWedge": 8, "QuadraticPolygon": 2,
        "QuadraticLinearQuadrilateral": 2, "QuadraticLinearWedge": 8, "TriQuadraticPyramid": 6,
    }  # fmt: skip
    for name, count in counts.items():
        assert len(bvh.BVH.from_mesh(getattr(examples.cells, name)())) == count, name
    solid = examples.cells.Polyhedron()
    blocks = pv.MultiBlock([solid, examples.cells.Quadrilateral()])
    with pytest.warns(bvh.BVHWarning, match="1 cells of the kind 'VTK 42' are left out"):
        assert len(bvh.BVH.from_mesh(blocks)) == 2


def test_without_meshio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "meshio", None)
    (tmp_path / "part.msh").write_text("$MeshFormat")
    with pytest.raises(ImportError, match=r'meshio: pip install "raybvh\[meshio\]"'):
        bvh.load_scene(tmp_path / "part.msh")
    code, _, err = run("info", "part.msh")
    assert code == 2 and "raybvh[meshio]" in err


def test_npz(tmp_path: Path, run: Run) -> None:
    """Triangles or quads; the commands tell faces."""
    np.savez(tmp_path / "cube.npz", vertices=CUBE, faces=QUADS)
    assert_cube(mesh_files.read_file(tmp_path / "cube.npz", "a mesh"), PAIRED)
    rays = np.array([[0.3, 0.6, 9, 0, 0, -1], [9, 9, 9, 0, 0, -1]])
    np.save(tmp_path / "rays.npy", rays)
    assert run("cast", "cube.npz", "--rays", "rays.npy", "-o", "hits.npz")[0] == 0
    assert np.load(tmp_path / "hits.npz")["face_id"].tolist() == [1, -1]
    assert run("build", "cube.npz", "-o", "cube.bvh")[0] == 0
    assert run("cast", "cube.bvh", "--rays", "rays.npy", "-o", "hits.csv")[0] == 0
    assert (tmp_path / "hits.csv").read_text().splitlines()[0].endswith(",face_id")
    assert run("info", "cube.npz")[0] == 0


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"t": np.zeros(3)}, "must hold 'vertices' and 'faces', and holds 't'"),
        ({"vertices": CUBE, "faces": QUADS + 5}, "faces must index the 8 vertices"),
        ({"vertices": CUBE, "faces": QUADS[:, :3] + 5}, "faces must index the 8 vertices"),
        ({"vertices": np.array([object()]), "faces": QUADS}, "allow_pickle"),
    ],
)
def test_npz_refused(arrays: dict[str, Any], match: str, tmp_path: Path) -> None:
    """What is missing or wrong is told; nothing is unpickled."""
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=rf"cannot read .*bad\.npz as a scene: .*{match}"):
        bvh.load_scene(tmp_path / "bad.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 and nothing")
    with pytest.raises(ValueError, match="cannot read"):
        bvh.load_scene(tmp_path / "bad.npz")


def test_what_is_no_mesh() -> None:
    """The message lists what is."""
    with pytest.raises(TypeError, match=r"mesh must be a mesh of trimesh, pyvista, .* got int"):
        bvh.BVH.from_mesh(3)
