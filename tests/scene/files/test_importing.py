"""Scenes of trimesh: what becomes of nodes, geometries, names, transforms, normals and uv."""

from __future__ import annotations

import json
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import bvh
from bvh import Attributes, Scene
from tests.cases.scans import SCANS

Rng = np.random.Generator


def model(name: str) -> Path:
    """Return the path of a model; skip where it is not at hand."""
    path = SCANS / name
    if not path.is_file():
        pytest.skip(f"no {name}")
    return path


def assert_like(scene: Scene, wanted: trimesh.Scene) -> None:
    """Compare a scene with the nodes of one of trimesh, and with what that dumps."""
    nodes = list(wanted.graph.nodes_geometry)
    trees: dict[tuple[str, bool], bvh.BVH] = {}
    for one, node in zip(scene, nodes, strict=True):
        matrix, name = wanted.graph.get(node)
        mesh, mirrored = wanted.geometry[name], bool(np.linalg.det(matrix) < 0.0)
        assert np.array_equal(one.transform, matrix)
        assert trees.setdefault((name, mirrored), one.child) is one.child
        assert np.array_equal(one.child.vertices, mesh.vertices)
        assert np.array_equal(one.child.faces, mesh.faces[:, ::-1] if mirrored else mesh.faces)
        assert scene.attributes(one.child).reversed == mirrored
        twin = trees.get((name, not mirrored))
        assert twin is None or np.shares_memory(twin.vertices, one.child.vertices)
    assert len({id(tree) for tree in trees.values()}) == len(trees) == len(scene.leaves.trees)
    vertices, faces, leaf_id, prim_id = scene.flattened()
    begin = 0
    for k, mesh in enumerate(wanted.dump()):
        end = begin + len(mesh.faces)
        assert (leaf_id[begin:end] == k).all()
        assert np.array_equal(prim_id[begin:end], np.arange(len(mesh.faces)))
        size, corners = np.abs(mesh.vertices).max(), vertices[faces[begin:end]]
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
    again = bvh.load_scene(path)
    assert [(one.name, one.transform.tolist()) for one in again] == [
        (one.name, one.transform.tolist()) for one in scene
    ]
    for one, node in zip(scene, wanted.graph.nodes_geometry, strict=True):
        known = scene.attributes(one.child)
        mesh = wanted.geometry[wanted.graph.get(node)[1]]
        assert np.array_equal(known.vertex_normals, mesh.vertex_normals)
        uv = mesh.visual.uv
        assert np.array_equal(known.uv, uv) if uv is not None else known.uv is None
    if name.startswith("Cesium"):
        assert len(scene) == 5 and len(scene.leaves.trees) == 4
        assert all(scene.find(f"Cesium_Milk_Truck{end}").size == 1 for end in ("", "_1", "_2"))
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
    assert len(scene) == 32 and [one.name for one in scene] == list(wanted.graph.nodes_geometry)
    total = sum(len(tree) for tree in scene.leaves.trees)
    assert len(scene.leaves.trees) == 4 and calls[-1] == (total, total) and calls == sorted(calls)
    assert Scene.from_trimesh(wanted, quality="high")[0].child.stats().primitives == 12


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
    with pytest.warns(bvh.BVHWarning, match="and 1 node more"):
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
        assert (known.material is not None) == (mesh.visual.kind == "texture")
        for got, given in zip(known[:2], wanted[:2], strict=True):
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


def test_files_without_triangles(tmp_path: Path) -> None:
    """What readers make nothing of is told, not taken for an empty scene."""
    trimesh.creation.box().export(tmp_path / "box.obj")
    whole = (tmp_path / "box.obj").read_text()
    trimesh.Scene(trimesh.creation.box()).export(tmp_path / "box.gltf", merge_buffers=True)
    told = json.loads((tmp_path / "box.gltf").read_text())
    files = {
        "garbage.obj": "\x00\x01 nothing of this is a mesh\n",
        "cut.obj": whole[: whole.index("\nf ")],
        "nothing.gltf": json.dumps({"asset": {"version": "2.0"}}),
        "rootless.gltf": json.dumps({**told, "scenes": [{"nodes": []}], "scene": 0}),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bvh.BVHWarning)
            with pytest.raises(ValueError, match=rf"{name} holds no triangles|cannot read"):
                bvh.load_scene(tmp_path / name)
    np.savez(tmp_path / "none.npz", vertices=np.eye(3), faces=np.empty((0, 3), int))
    with pytest.raises(ValueError, match=r"none\.npz holds no triangles"):
        bvh.load_scene(tmp_path / "none.npz")
    trimesh.PointCloud(np.eye(3)).export(tmp_path / "points.ply")
    with (
        pytest.warns(bvh.BVHWarning, match="no triangles"),
        pytest.raises(ValueError, match=r"points\.ply holds no triangles"),
    ):
        bvh.load_scene(tmp_path / "points.ply")


def gltf(path: Path, nodes: list[dict[str, Any]], meshes: list[tuple[str | None, int]]) -> Path:
    """Write a file of nodes, and of meshes by their name and how many parts they have."""
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], np.float32).tobytes()
    content = points + np.array([0, 1, 2, 0], np.uint16).tobytes()
    part = {"attributes": {"POSITION": 0}, "indices": 1}
    told: dict[str, Any] = {
        "asset": {"version": "2.0"}, "scene": 0,
        "scenes": [{"nodes": list(range(len(nodes)))}],
        "nodes": nodes,
        "meshes": [{"primitives": [part] * n, **({"name": s} if s else {})} for s, n in meshes],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3",
                       "min": [0, 0, 0], "max": [1, 1, 0]},
                      {"bufferView": 1, "componentType": 5123, "count": 3, "type": "SCALAR"}],
        "bufferViews": [{"buffer": 0, "byteLength": 36},
                        {"buffer": 0, "byteOffset": 36, "byteLength": 6}],
        "buffers": [{"byteLength": len(content)}],
    }  # fmt: skip
    if path.suffix == ".gltf":
        (path.parent / "points.bin").write_bytes(content)
        told["buffers"][0]["uri"] = "points.bin"
        path.write_text(json.dumps(told))
        return path
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % 4)
    size = 12 + 8 + len(text) + 8 + len(content)
    start = struct.pack("<4sIIII", b"glTF", 2, size, len(text), 0x4E4F534A)
    path.write_bytes(start + text + struct.pack("<II", len(content), 0x004E4942) + content)
    return path


MESHES: list[tuple[str | None, int]] = [("Wheels", 1), ("Body", 3), (None, 1), (None, 2)]


@pytest.mark.parametrize("ending", [".glb", ".gltf"])
def test_names_come_from_the_file(ending: str, tmp_path: Path) -> None:
    """That of the node, else of the mesh, numbered where it comes again; the same each time."""
    nodes: list[dict[str, Any]] = [
        {"mesh": 0}, {"mesh": 0}, {"name": "Wheels_1", "mesh": 0}, {"name": "7", "mesh": 0},
        {"mesh": 1}, {"name": "", "mesh": 1}, {"name": "Roof", "mesh": 0},
        {"name": "Roof", "mesh": 0}, {"mesh": 2}, {"mesh": 3}, {"name": "Cab", "mesh": 1},
        {"name": "Cab_1"},
    ]  # fmt: skip
    path = gltf(tmp_path / f"car{ending}", nodes, MESHES)
    scene = bvh.load_scene(path)
    names = sorted(str(one.name) for one in scene)
    assert names == sorted([
        "Wheels", "Wheels_2", "Wheels_1", "7", "Body", "Body_2", "Body_3", "Body_1", "Body_1_1",
        "Body_1_2", "Roof", "Roof_1", "8", "9", "9_1", "Cab", "Cab_1", "Cab_2",
    ])  # fmt: skip
    assert all(scene.find(name).size == 1 for name in names)
    lengths = {"Wheels_2": 1, "7": 1, "Roof_1": 1}
    assert all(len(scene[int(scene.find(name)[0])].child) == n for name, n in lengths.items())
    again = [one.name for one in bvh.load_scene(path)]
    assert again == [one.name for one in scene]
    # As trimesh reads it, names are as good as can be told; and the same each time.
    read = [Scene.from_trimesh(trimesh.load(path, process=False)) for _ in range(2)]
    found = [[str(one.name) for one in each] for each in read]
    assert found[0] == found[1] and len(set(found[0])) == len(found[0]) == len(names)
    assert {"Wheels", "Body", "Roof", "Cab"} <= set(found[0])
    assert not any(re.search("_[0-9a-f]{6}$", name) for name in found[0])


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
