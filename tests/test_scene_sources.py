"""Scenes of trimesh: what becomes of nodes, geometries, names, transforms, normals and uv."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Attributes, Scene

Rng = np.random.Generator
SCANS = Path(os.environ.get("BVH_TEST_MESHES", Path(__file__).parents[2] / "shared" / "meshes"))


def model(name: str) -> Path:
    """Return the path of a model; skip where it is not at hand."""
    path = SCANS / name
    if not path.is_file():
        path = Path("/work/shared/meshes") / name
    if not path.is_file():
        pytest.skip(f"no {name}")
    return path


def assert_like(scene: Scene, wanted: trimesh.Scene) -> None:
    """Compare a scene with the nodes of one of trimesh, and with what that dumps."""
    nodes = list(wanted.graph.nodes_geometry)
    assert [one.name for one in scene] == nodes
    trees: dict[str, bvh.BVH] = {}
    for one, node in zip(scene, nodes, strict=True):
        matrix, name = wanted.graph.get(node)
        mesh = wanted.geometry[name]
        assert np.array_equal(one.transform, matrix)
        assert trees.setdefault(name, one.child) is one.child
        assert np.array_equal(one.child.vertices, mesh.vertices)
        assert np.array_equal(one.child.faces, mesh.faces)
    assert len({id(tree) for tree in trees.values()}) == len(trees) == len(scene.leaves.trees)
    vertices, faces, leaf_id, prim_id = scene.flattened()
    begin = 0
    for k, mesh in enumerate(wanted.dump()):
        end = begin + len(mesh.faces)
        assert (leaf_id[begin:end] == k).all()
        assert np.array_equal(prim_id[begin:end], np.arange(len(mesh.faces)))
        size, corners = np.abs(mesh.vertices).max(), vertices[faces[begin:end]]
        if np.linalg.det(scene[k].transform) < 0.0:
            # trimesh turns the faces of a mirrored mesh around.
            corners = corners[:, ::-1]
        assert np.allclose(corners, mesh.triangles, rtol=0, atol=1e-12 * size)
        begin = end
    assert begin == len(faces)


@pytest.mark.parametrize("name", ["CesiumMilkTruck.glb", "Duck.glb"])
def test_models(name: str) -> None:
    """Instances are kept; the flattened scene is what trimesh dumps, but for rounding."""
    path = model(name)
    wanted = trimesh.load(path, process=False)
    scene = Scene.from_trimesh(wanted)
    assert_like(scene, wanted)
    # trimesh makes up names, new ones each time, for all but the first material of a mesh.
    again = [one.transform.tolist() for one in bvh.load_scene(path)]
    assert again == [one.transform.tolist() for one in scene]
    for one in scene:
        known = scene.attributes(one.child)
        mesh = wanted.geometry[wanted.graph.get(one.name)[1]]
        assert np.array_equal(known.vertex_normals, mesh.vertex_normals)
        uv = mesh.visual.uv
        assert np.array_equal(known.uv, uv) if uv is not None else known.uv is None
    if name.startswith("Cesium"):
        assert len(scene) == 5 and len(scene.leaves.trees) == 4
        assert scene[3].child is scene[4].child
        assert scene.attributes(scene[3].child).uv.shape == (586, 2)
    merged = trimesh.load(path)
    assert_like(Scene.from_trimesh(merged), merged)


def test_a_graph(rng: Rng) -> None:
    """Transforms are those from a node to the world, along the graph."""
    wanted = trimesh.Scene()
    meshes = {"box": trimesh.creation.box(), "ball": trimesh.creation.icosphere(subdivisions=1)}
    wanted.add_geometry(meshes["box"], node_name="root box", geom_name="box")
    wanted.add_geometry(meshes["ball"], node_name="root ball", geom_name="ball")
    names = ["root box", "root ball"]
    for k in range(30):
        matrix = np.eye(4)
        matrix[:3] = rng.normal(size=(3, 4))
        wanted.graph.update(
            frame_from=names[rng.integers(len(names))], frame_to=f"node {k}", matrix=matrix,
            geometry=str(rng.choice(["box", "ball"])),
        )  # fmt: skip
        names.append(f"node {k}")
    calls: list[tuple[int, int]] = []
    scene = Scene.from_trimesh(wanted, threads=1, progress=lambda *a: calls.append(a))
    assert_like(scene, wanted)
    assert len(scene) == 32
    total = sum(len(mesh.faces) for mesh in meshes.values())
    assert calls[-1] == (total, total) and calls == sorted(calls)
    assert Scene.from_trimesh(wanted, quality="low")[0].child.stats().primitives == 12


def test_what_is_left_out(rng: Rng) -> None:
    """Points, paths and flat nodes, with a warning that names them; the rest is there."""
    wanted = trimesh.Scene()
    wanted.add_geometry(trimesh.creation.box(), node_name="box", geom_name="box")
    wanted.add_geometry(trimesh.PointCloud(rng.random((5, 3))), node_name="points")
    with pytest.warns(bvh.BVHWarning, match=r"'points' is left out: it holds no triangles \(Point"):
        assert [one.name for one in Scene.from_trimesh(wanted)] == ["box"]
    wanted.graph.update(
        frame_from="world", frame_to="flat", matrix=np.diag([1, 1, 0, 1.0]), geometry="box"
    )
    with pytest.warns(bvh.BVHWarning, match="and 1 more nodes"):
        assert len(Scene.from_trimesh(wanted)) == 1
    wanted.delete_geometry([name for name in wanted.geometry if name != "box"])
    with pytest.warns(bvh.BVHWarning, match="'flat' is left out: its transform must be invertible"):
        scene = Scene.from_trimesh(wanted)
    assert len(scene) == 1
    assert len(Scene.from_trimesh(trimesh.Scene())) == 0


def test_attributes(rng: Rng) -> None:
    """Normals only where they have been given or asked for; uv of the right length."""
    mesh = trimesh.creation.box()
    vertices, faces = mesh.vertices.copy(), mesh.faces.copy()
    plain = trimesh.Trimesh(vertices, faces, process=False)
    assert_attributes(plain, Attributes())
    assert "vertex_normals" not in plain._cache
    uv = rng.random((8, 2))
    visual = trimesh.visual.TextureVisuals(uv=uv)
    textured = trimesh.Trimesh(vertices, faces, visual=visual, process=False)
    assert_attributes(textured, Attributes(None, uv))
    normals = textured.vertex_normals
    assert_attributes(textured, Attributes(normals, uv))
    textured.visual.uv = uv[:5]
    assert_attributes(textured, Attributes(normals, None))


def assert_attributes(mesh: trimesh.Trimesh, wanted: Attributes) -> None:
    """Compare what is kept of a mesh, added alone and in a scene."""
    scene = Scene()
    scene.add(mesh)
    whole = trimesh.Scene()
    whole.geometry["it"] = mesh
    whole.graph.update(frame_from="world", frame_to="node", geometry="it")
    for one in (scene, Scene.from_trimesh(whole)):
        known = one.attributes(one[0].child)
        for got, given in zip(known, wanted, strict=True):
            assert (got is None) == (given is None)
            assert got is None or (np.array_equal(got, given) and not got.flags.writeable)


def test_refused(tmp_path: Path) -> None:
    """What is no scene, and what no reader understands."""
    with pytest.raises(TypeError, match=r"trimesh_scene must be a trimesh\.Scene, got Trimesh"):
        Scene.from_trimesh(trimesh.creation.box())
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none\.glb"):
        bvh.load_scene(tmp_path / "none.glb")
    (tmp_path / "bad.glb").write_bytes(b"glTF")
    with pytest.raises(ValueError, match=r"cannot read .* as a scene"):
        bvh.load_scene(tmp_path / "bad.glb")


def test_files(tmp_path: Path) -> None:
    """A mesh alone is a scene of one; GLB keeps instances."""
    trimesh.creation.box().export(tmp_path / "box.ply")
    scene = bvh.load_scene(tmp_path / "box.ply")
    assert len(scene) == 1 and len(scene[0].child) == 12
    wanted = trimesh.Scene()
    box = trimesh.creation.box()
    wanted.add_geometry(box, node_name="one", geom_name="box")
    matrix = trimesh.transformations.rotation_matrix(0.5, [1, 2, 3], [4, 5, 6])
    wanted.graph.update(frame_from="one", frame_to="two", matrix=matrix, geometry="box")
    wanted.export(tmp_path / "boxes.glb")
    scene = bvh.load_scene(tmp_path / "boxes.glb")
    assert len(scene) == 2 and len(scene.leaves.trees) == 1
    assert_like(scene, trimesh.load(tmp_path / "boxes.glb", process=False))
