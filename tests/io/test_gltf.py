"""glTF files: all that the format can say of geometry, against a second reader and by hand."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.gltf_files import INSTANCING, SQUARE, SQUARE_FACES, GltfFile
from tests.oracles.gltf import assert_read

Rng = np.random.Generator
DRACO, MESHOPT = "KHR_draco_mesh_compression", "EXT_meshopt_compression"
# A ray from above through the square.
RAY = [0.3, 0.25, 5.0], [0.0, 0.0, -1.0]


def one(tmp_path: Path, file: GltfFile, name: str = "a.glb", **node: Any) -> Path:
    """Write a file with a node of its only mesh."""
    file.node(mesh=0, **node)
    return file.save(tmp_path / name)


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2"])
@pytest.mark.parametrize("stride", [0, 8, 12])
@pytest.mark.parametrize("normalized", [False, True])
def test_integers(kind: str, stride: int, normalized: bool, tmp_path: Path) -> None:
    """Normalized ones are divided by the largest of their type, also the least by it."""
    largest = np.iinfo(kind).max if normalized else 1
    values = (SQUARE * largest).round().astype(kind)
    values[0, 2] = np.iinfo(kind).min
    file = GltfFile(extensionsRequired=["KHR_mesh_quantization"])
    more: dict[str, Any] = {"normalized": True} if normalized else {}
    place = file.accessor(values, stride=stride, bounds=True, **more)
    uv = file.accessor((SQUARE[:, :2] * largest).astype(kind), **more)
    colours = file.accessor(np.full((4, 4), largest, kind), **more)
    attributes = {"POSITION": place, "TEXCOORD_0": uv, "COLOR_0": colours}
    file.mesh({"attributes": attributes, "indices": file.accessor(SQUARE_FACES)})
    path = one(tmp_path, file)
    assert_read(path)
    scene = bvh.load_scene(path)
    material = scene.attributes(scene[0].child).material
    assert material is not None and (material.vertex_colors == 255).all()
    low = {"i1": -1.0, "i2": -1.0}.get(kind, 0.0) if normalized else float(np.iinfo(kind).min)
    assert np.array_equal(bvh.BVH.from_file(path).bounds, [[0, 0, min(low, 0.0)], [1, 1, 0]])


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("index", ["u1", "u2", "u4"])
def test_sparse(dense: bool, index: str, tmp_path: Path) -> None:
    """Rows that are stored apart, over others or over zeros; of positions and of indices."""
    points = SQUARE + np.float32([0, 0, 2])
    file = GltfFile()
    place = file.accessor(points, dense=dense, rows=range(4), index=index, bounds=True)
    faces = file.accessor(SQUARE_FACES, dense=dense, rows=[1, 2, 3, 4, 5], index=index)
    if dense:
        # What is under the sparse ones there is 1.
        assert file.json["accessors"][faces]["bufferView"] is not None
    file.mesh({"attributes": {"POSITION": place}, "indices": faces})
    path = one(tmp_path, file)
    assert_read(path)
    for load in bvh.load_scene, bvh.BVH.from_file:
        assert load(path).closest_hit(*RAY).t == 3.0


def test_required_extensions(tmp_path: Path) -> None:
    """Those that are not known are refused by name; those that change no geometry are not."""
    for name in ("VENDOR_layout", DRACO, MESHOPT, "KHR_gaussian_splatting"):
        file = GltfFile(extensionsUsed=[name], extensionsRequired=[name])
        file.mesh()
        path = one(tmp_path, file)
        for load in bvh.load_scene, bvh.BVH.from_file:
            with pytest.raises(ValueError, match=rf"a\.glb.*'{name}', which is not supp") as told:
                load(path)
        assert ("gltf-transform" in str(told.value)) == (name in (DRACO, MESHOPT))
    for name in ("KHR_materials_unlit", "KHR_texture_transform", "KHR_lights_punctual"):
        file = GltfFile(extensionsUsed=[name], extensionsRequired=[name])
        file.mesh()
        assert_read(one(tmp_path, file))


def test_compressed_data(tmp_path: Path) -> None:
    """Where an extension is not required, its fallback is read; without one, the file is not."""
    for has_data in (True, False):
        file = GltfFile(extensionsUsed=[DRACO])
        file.mesh(file.square(extensions={DRACO: {"bufferView": 0, "attributes": {"POSITION": 0}}}))
        for accessor in file.json["accessors"]:
            if not has_data:
                del accessor["bufferView"]
        path = one(tmp_path, file)
        if has_data:
            assert_read(path)
            continue
        with pytest.raises(ValueError, match=rf"accessor 0 has no data: compressed by {DRACO}"):
            bvh.load_scene(path)
    file = GltfFile(extensionsUsed=[MESHOPT])
    file.mesh()
    content = json.loads(one(tmp_path, file, "a.gltf").read_text())
    content["buffers"][0] |= {"extensions": {MESHOPT: {"fallback": True}}}
    path.with_suffix(".gltf").write_text(json.dumps(content))
    assert_read(path.with_suffix(".gltf"))
    del content["buffers"][0]["uri"]
    path.with_suffix(".gltf").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"buffer 0 is compressed by {MESHOPT}: decompress it"):
        bvh.load_scene(path.with_suffix(".gltf"))


def test_instances(tmp_path: Path, rng: Rng) -> None:
    """Instances of a node are placed below it, beside its children, and named after it."""
    for required in (True, False):
        file = GltfFile(extensionsUsed=[INSTANCING])
        if required:
            file.json["extensionsRequired"] = [INSTANCING]
        file.mesh(name="leaf")
        shifts = file.accessor(rng.normal(size=(3, 3)).astype("f4"))
        turns = np.float32([[0, 0, 0, 1], [0, 1, 0, 0], [0.6, 0, 0, 0.8]])
        packed = file.accessor((turns * 127).round().astype("i1"), normalized=True)
        scales = file.accessor(np.float32([[1, 1, 1], [-1, 1, 1], [2, 3, 4]]))
        given = {"TRANSLATION": shifts, "ROTATION": packed, "SCALE": scales}
        told = {INSTANCING: {"attributes": given}}
        file.node(mesh=0, extensions=told, name="tree", scale=[1, 1, -1], children=[1])
        file.node(root=False, mesh=0)
        path = file.save(tmp_path / "a.glb")
        assert_read(path)
        found = sorted(str(each.name) for each in bvh.load_scene(path))
        assert found == ["leaf", "tree", "tree_1", "tree_2"]
    file.json["accessors"][scales]["count"] = 2
    with pytest.raises(ValueError, match="node 'tree' has instances of no count, or of several"):
        bvh.load_scene(file.save(path))


@pytest.mark.parametrize("mode", [5, 6])
@pytest.mark.parametrize("indexed", [True, False])
def test_strips_and_fans(mode: int, indexed: bool, tmp_path: Path, rng: Rng) -> None:
    """Their triangles are in order, and turned as the format says."""
    points = np.float32([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])[[0, 1, 3, 2]]
    points = points if mode == 5 else points[[0, 1, 3, 2]]
    file = GltfFile()
    part: dict[str, Any] = {"attributes": {"POSITION": file.accessor(points)}, "mode": mode}
    if indexed:
        part["indices"] = file.accessor(np.arange(4, dtype="u1"))
    file.mesh(part)
    path = one(tmp_path, file)
    assert_read(path)
    hits = bvh.load_scene(path).closest_hit([[0.3, 0.2, 5], [0.7, 0.8, 5]], RAY[1], cull="back")
    assert hits.t.tolist() == [5, 5] and len(bvh.BVH.from_file(path)) == 2


def test_morph_targets(tmp_path: Path) -> None:
    """Default weights are those of the node, or else of the mesh; nodes need not agree."""
    file = GltfFile()
    up = file.accessor(np.zeros((4, 3), "f4") + np.float32([0, 0, 2]), bounds=True)
    none = file.accessor(np.zeros((4, 3), "f4"), dense=False)
    file.mesh(file.square(targets=[{"POSITION": up}, {"POSITION": none}]), weights=[1.0, 5.0])
    file.node(mesh=0, name="up")
    file.node(mesh=0, weights=[0.5, 0.0], name="half")
    file.node(mesh=0, weights=[0.0, 0.0], name="flat")
    file.node(mesh=0, name="again")
    path = file.save(tmp_path / "a.glb")
    assert_read(path)
    scene = bvh.load_scene(path)
    heights = {str(each.name): each.child.bounds[1, 2] for each in scene}
    assert heights == {"up": 2.0, "half": 1.0, "flat": 0.0, "again": 2.0}
    assert len(scene.leaves.trees) == 3
    file.json["meshes"][0]["weights"] = [1.0]
    with pytest.raises(ValueError, match="mesh 0 has 1 weights for 2 morph targets"):
        bvh.load_scene(file.save(path))


def test_what_is_ignored(tmp_path: Path) -> None:
    """Skins, points and lines are told, once each, with the first place; animations are not."""
    file = GltfFile(animations=[], skins=[{"joints": [1]}])
    file.mesh(file.square(), file.square(mode=1), name="both")
    file.mesh(file.square(mode=0))
    file.node(mesh=0, skin=0, name="arm", children=[1])
    file.node(root=False, mesh=1, translation=[0, 0, 3], children=[2])
    file.node(root=False, mesh=0, skin=0, translation=[3, 0, 0])
    path = file.save(tmp_path / "a.glb")
    for load in bvh.load_scene, bvh.BVH.from_file:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            load(path)
        assert sorted(str(each.message) for each in told) == [
            "node 1 is left out: it holds no triangles",
            "points, lines and parts without triangles are left out, in mesh 'both' of the glTF "
            "file",
            "skins are ignored: vertices are as stored, in node 'arm' and 1 place more of the glTF "
            "file",
        ]
        assert all(each.category is bvh.BVHWarning and each.filename == __file__ for each in told)
    # What is below a node of points is where that is.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_read(path)


def test_uris(tmp_path: Path) -> None:
    """They are percent-encoded, though some writers do not know it; nothing leads out."""
    folder = tmp_path / "in"
    folder.mkdir()
    file = GltfFile()
    file.mesh()
    for name in ("my part.bin", "größe.bin", "a%41.bin", "100%.bin"):
        file.json["nodes"], file.json["scenes"] = [], [{"nodes": []}]
        file.node(mesh=0)
        path = file.save(folder / "a.gltf", name)
        assert_read(path)
        content = json.loads(path.read_text())
        # As it is, where no file has the decoded name.
        content["buffers"][0]["uri"] = name
        path.write_text(json.dumps(content))
        assert len(bvh.BVH.from_file(path)) == 2
    (folder / "100%.bin").rename(tmp_path / "out.bin")
    for uri in ("../out.bin", "%2e%2e%2fout.bin", "%2E%2E/out.bin", "..%2fin%2f..%2fout.bin"):
        content["buffers"][0]["uri"] = uri
        path.write_text(json.dumps(content))
        with pytest.raises(ValueError, match="no such file in the folder of the mesh"):
            bvh.load_scene(path)
    code = "".join(f"%{byte:02x}" for byte in file.data)
    content["buffers"][0]["uri"] = f"data:application/octet-stream,{code}"
    path.write_text(json.dumps(content))
    assert len(bvh.BVH.from_file(path)) == 2


def test_cameras(tmp_path: Path) -> None:
    """Nodes that have one keep their mesh, and those below them their place."""
    file = GltfFile(cameras=[{"type": "perspective", "perspective": {"yfov": 1, "znear": 1}}])
    file.mesh()
    file.node(mesh=0, camera=0, translation=[0, 0, 1], children=[1], name="eye")
    file.node(root=False, mesh=0, translation=[0, 0, 1], name="below")
    path = file.save(tmp_path / "a.glb")
    assert_read(path)
    assert bvh.load_scene(path).closest_hit(*RAY).t == 3.0


def test_matrices(tmp_path: Path) -> None:
    """They are as the file has them, also those that are nearly rotations."""
    matrix = np.eye(4)
    matrix[:2, :2] = [[-0.5, 0.866025], [-0.866025, -0.5]]
    file = GltfFile()
    file.mesh()
    path = one(tmp_path, file, matrix=matrix.T.reshape(-1).tolist())
    assert_read(path)
    assert np.array_equal(bvh.load_scene(path)[0].transform, matrix)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(path, "a.glb")
    assert np.array_equal(bvh.load_scene(tmp_path / "a.zip")[0].transform, matrix)
    # With another part of a transform, readers differ, unless either changes nothing.
    both = file.json["nodes"][0]
    both["translation"] = [0, 0, 0]
    assert np.array_equal(bvh.load_scene(file.save(path))[0].transform, matrix)
    both["translation"] = [1, 0, 0]
    with pytest.raises(ValueError, match="node 0 has a matrix and also a translation"):
        bvh.load_scene(file.save(path))
    both |= {"matrix": np.eye(4).reshape(-1).tolist(), "name": 7}
    assert bvh.load_scene(file.save(path))[0].name == "7"
    # A mesh's name that is null is none.
    del both["name"]
    file.json["meshes"][0]["name"] = None
    assert bvh.load_scene(file.save(path))[0].name == "0"


@pytest.mark.parametrize("normalized", [False, True])
def test_bounds(normalized: bool, tmp_path: Path) -> None:
    """Data out of the bounds that the file gives are told; slight rounding is not."""
    file = GltfFile()
    kind = "u1" if normalized else "f4"
    more: dict[str, Any] = {"normalized": True} if normalized else {}
    largest = 255 if normalized else 1
    place = file.accessor((SQUARE * largest).astype(kind), bounds=True, **more)
    file.mesh({"attributes": {"POSITION": place}, "indices": file.accessor(SQUARE_FACES)})
    path = one(tmp_path, file)
    accessor = file.json["accessors"][place]
    # Normalized bounds are met, too, and bounds that are none.
    for high in ([largest, largest, 0], [1, 1, 0], [1.0004, 0.9996, 0], [1, 1], None, "x"):
        accessor["max"] = high
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(bvh.BVH.from_file(file.save(path))) == 2
    for high in ([largest, largest, 1], [2, 2, 0], [1.01, 1, 0]):
        accessor["max"] = high
        with pytest.warns(bvh.BVHWarning, match="accessor 0 of the glTF file has data from"):
            assert len(bvh.BVH.from_file(file.save(path))) == 2


SPOILED: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "index": (("accessors", 1, "componentType"), 5125, "accessor 1 ends at byte 24 of"),
    "vertices": (("accessors", 0, "count"), 3, "accessor 1 has an index 3 for 3 vertices"),
    "range": (("accessors", 0, "byteOffset"), 4, "accessor 0 ends at byte 52 of bufferView 0"),
    "stride": (("bufferViews", 0, "byteStride"), 8, "accessor 0 has elements of 12 bytes, 8 bytes"),
    "type": (("accessors", 0, "type"), "VEC2", "accessor 0 must be VEC3, got 'VEC2'"),
    "component": (("accessors", 0, "componentType"), 5124, "of component type 5124"),
    "signed": (("accessors", 1, "componentType"), 5122, "accessor 1 has indices that are not"),
    "normalized": (("accessors", 0, "normalized"), 2, "no error"),
    "corners": (("accessors", 1, "count"), 5, "mesh 0 has triangles with 5 corners together"),
    "mode": (("meshes", 0, "primitives", 0, "mode"), 7, "a primitive of an unknown mode, 7"),
    "view": (("accessors", 0, "bufferView"), -1, r"it refers to bufferViews\[-1\], and has 2"),
    "buffer": (("bufferViews", 0, "buffer"), 1, r"it refers to buffers\[1\], and has 1 buffers"),
    "view end": (("bufferViews", 1, "byteOffset"), 80, "bufferView 1 ends at byte 92 of buffer 0"),
    "mesh": (("nodes", 0, "mesh"), True, r"it refers to meshes\[True\], and has 1 meshes"),
    "material": (("meshes", 0, "primitives", 0, "material"), 0, r"it refers to materials\[0\]"),
    "scale": (("nodes", 0, "scale"), [1, 1], "scale of node 0 must be 3 numbers, got"),
    "rotation": (("nodes", 0, "rotation"), [0, 0, 0, 0], "node 0 has a rotation that is not a"),
    "matrix": (("nodes", 0, "matrix"), [1.0] * 16, "matrix of node 0 must be affine"),
    "root": (("scenes", 0, "nodes"), [0, 0], "node 0 is below itself, or has several parents"),
    "version": (("asset", "version"), "1.0", "it is of version '1.0' of glTF"),
    "normals": (
        ("meshes", 0, "primitives", 0, "attributes", "NORMAL"), 2,
        r"accessor 2 \(NORMAL\) has 3 elements for 4 vertices",
    ),
    "sparse": (
        ("accessors", 0, "sparse"),
        {
            "count": 1, "indices": {"bufferView": 1, "byteOffset": 8, "componentType": 5125},
            "values": {"bufferView": 0},
        },
        "accessor 0 has a sparse index 131075 for 4 elements",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled(name: str, tmp_path: Path) -> None:
    """The error names the file and what is wrong in it."""
    keys, value, match = SPOILED[name]
    file = GltfFile()
    file.mesh()
    file.accessor(np.zeros((3, 3), "f4"), dense=False)
    file.node(mesh=0)
    if name == "normalized":
        file.json["accessors"][0]["componentType"] = 5123
        match = "accessor 0 must be normalized or not, got 2"
    part: Any = file.json
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path = file.save(tmp_path / "a.gltf")
    for load in bvh.load_scene, bvh.BVH.from_file:
        with pytest.raises(ValueError, match=rf"a\.gltf.*{match}"):
            load(path)


def test_morph_targets_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few bytes, each node has an array of its own; so have instances of few numbers."""
    file = GltfFile()
    place, up = file.accessor(np.ones((3000, 3), "f4")), file.accessor(np.ones((3000, 3), "f4"))
    file.mesh({"attributes": {"POSITION": place}, "targets": [{"POSITION": up}]})
    for k in range(50):
        file.node(mesh=0, weights=[1.0 + k])
    path = file.save(tmp_path / "a.glb")
    monkeypatch.setenv("BVH_MAX_UNPACKED", "1000000")
    with pytest.raises(ValueError, match="its morph targets would take over 1000000 bytes"):
        bvh.load_scene(path)
    file = GltfFile()
    file.mesh()
    many = file.accessor(np.zeros((5000, 3), "f4"), dense=False)
    given = {INSTANCING: {"attributes": {"TRANSLATION": many}}}
    with pytest.raises(ValueError, match="the instances of node 0 would take over 1000000 bytes"):
        bvh.load_scene(one(tmp_path, file, extensions=given))
