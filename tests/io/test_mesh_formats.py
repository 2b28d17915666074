"""OBJ, PLY, OFF and STL files as programs write them: in the order of the file, or refused."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import trimesh

import bvh
from bvh.io.threemf_files import with_one_model
from bvh.pictures import render

GRID = [(x, y, 0.0) for y in (0.0, 1.0) for x in range(9)]
DOWN = [0.0, 0.0, -1.0]
FACE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def names_of(path: Path) -> list[str | None]:
    return [one.name for one in bvh.load_scene(path)]


# OBJ


@pytest.mark.parametrize("piece", [8, 1 << 22])
def test_negative_indices(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count back from their line, wherever a piece of the file ends."""
    monkeypatch.setattr("bvh.io.text_lines.PIECE", piece)
    low = FACE.replace(" 0\n", " -9\n")
    path = written(tmp_path / "a.obj", f"{FACE}f -3 -2 -1\n{low}f -3 -2 -1\n")
    tree = bvh.BVH.from_file(path)
    assert tree.faces.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tree.closest_hit([0.2, 0.2, 5.0], DOWN).t == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f 0 1 2", "line 5: 0 is no index of v: 3 are before"),
        ("f 1 2 4", "line 5: 4 is no index of v: the file has 3"),
        ("f 1 2 -4", "line 5: -4 is no index of v: 3 are before"),
        ("f 1/1 2/1 3/1", "line 5: 1 is no index of vt: the file has 0"),
        ("f 1//0 2//1 3//1", "line 5: 0 is no index of vn"),
        ("f 1 2 99999999999", "line 5: 99999999999 is no index of v"),
        ("f 1 2 3.5", "line 5: '1 2 3.5' are not numbers"),
        ("f 1 2 3/1/1/1", "line 5: '3/1/1/1' is no corner of a face"),
        ("f 1 2 /1", "line 5: '/1' is no corner of a face"),
        ("v 1 2", "line 5: v must have 3 to 8 numbers, got 2"),
        ("v 1 2 1,5", "line 5: '1 2 1,5' are not numbers"),
        ("vn 1 2 3 4", "line 5: vn must have 3 numbers, got 4"),
        ("l 1 2", "it holds no faces, but elements l"),
        ("curv 0 1 1 2\nsurf 0 1 0 1 1 2", "it holds no faces, but elements curv, surf"),
    ],
)
def test_bad_lines_of_obj(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.obj", f"# box\n{FACE}{text}\n")
    for read in (bvh.BVH.from_file, bvh.load_scene):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.obj as a \w+: {message}"):
            read(path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("o wheel\nF\no door\nF\no glass\nF", ["wheel", "door", "glass"]),
        ("g wheel\nF\ng door\nF\ng wheel\nF", ["wheel", "door"]),
        # Objects of one group have their own name, others those of the groups.
        ("o wheel\ng default\nF\no door\ng default\nF", ["wheel", "door"]),
        ("o car\ng wheel\nF\ng door\nF", ["wheel", "door"]),
        ("o car\nF\ng wheel\nF\no van\ng wheel\nF\ng door\nF", ["car", "wheel", "wheel_1", "door"]),
        ("o empty\no wheel\nusemtl a\nF\nusemtl b\nF", ["wheel"]),
        ("g\nF\ng left wheel\nF", ["a.obj", "left wheel"]),
        ("F", ["a.obj"]),
        ("o wheel\nF", ["wheel"]),
    ],
)
def test_names_of_parts(text: str, names: list[str], tmp_path: Path) -> None:
    parts = text.split("F")
    content = "".join(
        f"{part}\n{FACE.replace(' 0 0 0', f' 0 0 {z}')}f -3 -2 -1\n"
        for z, part in enumerate(parts[:-1])
    )
    path = written(tmp_path / "a.obj", content)
    assert names_of(path) == names
    assert len(bvh.BVH.from_file(path)) == len(parts) - 1
    if "default" in text:
        scene = bvh.load_scene(path)
        assert scene.name_of(scene.closest_hit([0.1, 0.1, 9.0], DOWN).leaf) in names


def car(folder: Path) -> Path:
    """Write an OBJ file with parts, materials, an image, polygons and vertices of no face."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (2, 2), (255, 0, 0)).save(folder / "red.png")
    written(
        folder / "a b.mtl",
        "newmtl paint\nKd 0 1 0\nnewmtl steel\nKd 0 0 1\nnewmtl tape\nmap_Kd red.png\n",
    )
    points = "".join("v {} {} {}\n".format(*one) for one in GRID)
    uv = "vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
    faces = [
        ("o door\nusemtl steel", "1 2 11 10"), ("usemtl paint", "2 3 12"),
        ("usemtl tape", "3/1 4/2 13/3 12/4"),
        ("o roof\nusemtl paint", "4/1 5/2 14/3"), ("usemtl unknown", "5 6 15 14"),
    ]  # fmt: skip
    text = "".join(f"{name}\nf {face}\n" for name, face in faces)
    return written(folder / "car.obj", f"mtllib a b.mtl\n{points}{uv}{text}")


def test_order_and_materials(tmp_path: Path) -> None:
    """Faces keep their order, also in each part; materials without an image do not divide parts."""
    path = car(tmp_path)
    tree, scene = bvh.BVH.from_file(path), bvh.load_scene(path)
    assert np.array_equal(tree.vertices, GRID)
    hits = tree.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(5)], DOWN)
    assert tree.face_of(hits.prim_id).tolist() == [0, 1, 2, 3, 4]
    assert [one.name for one in scene] == ["door", "door_1", "roof", "roof_1"]
    found = scene.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(5)], DOWN)
    assert found.leaf.tolist() == [0, 0, 1, 2, 3] and np.array_equal(found.t, hits.t)
    assert scene.face_of(found.leaf, found.prim_id).tolist() == [0, 1, 0, 0, 0]
    looks: list[Any] = [scene.attributes(one.child).material for one in scene]
    assert looks[0].face_colors.tolist() == [[0, 0, 255]] * 2 + [[0, 255, 0]]
    assert looks[1].image.size == (2, 2) and looks[2].factor.tolist() == [0.0, 1.0, 0.0]
    assert looks[3] is None
    camera = bvh.Camera.framing(scene, width=200, height=40)
    pixels = render(scene, camera, "material").pixels.reshape(-1, 3)
    for channel in range(3):
        # Pure colours, however they are lit.
        pure = (np.delete(pixels, channel, axis=1) == 0).all(axis=1)
        assert (pixels[pure, channel] > 50).any()


def test_seams(tmp_path: Path) -> None:
    """A vertex with two texture coordinates comes again behind all others, for pictures alone."""
    text = FACE + "v 9 9 9\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nvt 0.5 0.5\nvn 0 0 1\n"
    path = written(tmp_path / "a.obj", text + "f 1/1/1 2/2/1 3/3/1\nf 2/4/1 5/1/1 3/3/1\n")
    tree, child = bvh.BVH.from_file(path), bvh.load_scene(path)[0].child
    assert tree.faces.tolist() == [[0, 1, 2], [1, 4, 2]] and len(tree.vertices) == 5
    assert child.faces.tolist() == [[0, 1, 2], [5, 4, 2]] and len(child.vertices) == 6
    known = bvh.load_scene(path).attributes(bvh.load_scene(path)[0].child)
    assert known.uv is None
    scene = bvh.load_scene(path)
    known = scene.attributes(scene[0].child)
    assert known.uv is not None and known.vertex_normals is not None
    assert known.uv[[0, 1, 2, 4, 5]].tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [0.5, 0.5]]
    assert np.isnan(known.uv[3]).all()
    scene.save(tmp_path / "a.bvh")
    again = bvh.load(tmp_path / "a.bvh")
    assert isinstance(again, bvh.Scene)
    assert np.array_equal(again.attributes(again[0].child).uv, known.uv, equal_nan=True)


def test_colours_of_vertices(tmp_path: Path) -> None:
    """From 0 to 1, or bytes; of a part whose vertices all have some."""
    for scale in (1, 255):
        colours = [f"v {x} {y} 0 {scale * x} {scale * y} 0\n" for x, y in ((0, 0), (1, 0), (0, 1))]
        text = f"o a\n{''.join(colours)}f 1 2 3\no b\n{FACE}f 4 5 6\n"
        scene = bvh.load_scene(written(tmp_path / "a.obj", text))
        looks: list[Any] = [scene.attributes(one.child).material for one in scene]
        assert looks[0].vertex_colors.tolist() == [[0, 0, 0], [255, 0, 0], [0, 255, 0]]
        assert looks[1] is None


def test_other_elements(tmp_path: Path) -> None:
    """Lines and points are left out, which is told; so are lines of unknown kinds."""
    for line, message in (
        ("l 1 2\np 3", "elements of an OBJ file are left out: l, p"),
        ("w 1 2 3", "lines of unknown kinds of an OBJ file are left out: 'w'"),
    ):
        path = written(tmp_path / "a.obj", f"{FACE}{line}\nf 1 2 3\n")
        with pytest.warns(bvh.BVHWarning, match=message) as told:
            assert len(bvh.BVH.from_file(path)) == 1
        assert told[0].filename == __file__


def test_lines_of_obj(tmp_path: Path) -> None:
    """Joined lines, remarks and line ends of all systems."""
    text = "v 0 0 \\\n 0\nv 1 0 0 # right\n#f 1 2 3 \\\n\tv 0 1 0\nf 1 \\\n2 \\\n3#4\n"
    old = f"{FACE}f 1 2 \\\n3\n".replace("\n", "\r")
    for content in (text, text.replace("\n", "\r\n"), old, f"\ufeff{text}"):
        tree = bvh.BVH.from_file(written(tmp_path / "a.obj", content))
        assert tree.faces.tolist() == [[0, 1, 2]] and tree.vertices[2].tolist() == [0, 1, 0]


# PLY


HEAD = (
    "ply\nformat {} 1.0\nelement vertex 6\nproperty float x\nproperty float y\nproperty float z\n"
)
SIX = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0)]
MIXED = [(0, 1, 2, 3), (1, 4, 5), (1, 5, 2)]


def ply(form: str, faces: Any, more: str = "", kind: str = "uchar int") -> bytes:
    """Return a file with polygons, and with lines of the header before the last."""
    head = f"{HEAD.format(form)}element face {len(faces)}\nproperty list {kind} vertex_indices\n"
    data = f"{head}{more}end_header\n".encode()
    if form == "ascii":
        rows = [*SIX, *((len(face), *face) for face in faces)]
        return data + "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    mark = "<" if "little" in form else ">"
    data += b"".join(struct.pack(f"{mark}3f", *one) for one in SIX)
    return data + b"".join(struct.pack(f"{mark}B{len(one)}i", len(one), *one) for one in faces)


FORMS = ["ascii", "binary_little_endian", "binary_big_endian"]


@pytest.mark.parametrize("form", FORMS)
def test_polygons_of_ply(form: str, tmp_path: Path) -> None:
    """Triangles and quads in their order, and damage that is named."""
    data = ply(form, MIXED)
    path = written(tmp_path / "a.ply", data)
    for faces in (MIXED, [MIXED[0]] * 3, MIXED[::-1]):
        tree = bvh.BVH.from_file(written(path, ply(form, faces)))
        assert np.array_equal(tree.vertices, SIX)
        ids = np.asarray(tree.face_of(np.arange(len(tree))))
        assert np.array_equal(np.unique(ids), np.arange(3)) and (np.diff(ids) >= 0).all()
        for row, corners in zip(ids, tree.faces, strict=True):
            assert set(corners.tolist()) <= set(faces[row])
        child = bvh.load_scene(path)[0].child
        assert np.array_equal(child.faces, tree.faces)
        assert np.array_equal(child.face_of(np.arange(len(tree))), ids)
    for content, message in (
        (data[:-1] if form != "ascii" else data[:-8], "it is cut off"),
        (data + b"7", "behind the last row that its header tells of"),
        (data.replace(b"face 3", b"face 30"), "it is cut off"),
        (ply(form, [(0, 1, 6)]), r"face 0 must have indices of 6 vertices, got \[0, 1, 6\]"),
        (ply(form, [(0, 1, 2), (0, -1, 2)]), r"face 1 must have indices of 6 vertices"),
        (
            data.replace(b"vertex_indices", b"flags\nproperty list uchar int no"),
            "it is cut off|do not end together",
        ),
        (data.replace(b"float x", b"float a"), "its vertices have no x"),
        (data.replace(b"end_header", b"end_head"), "its header has no line 'end_header'"),
        (data.replace(b"float x", b"real x"), "its header has a line 'property real x'"),
    ):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.ply as a mesh: .*({message})"):
            bvh.BVH.from_file(written(path, content))


def test_clouds(tmp_path: Path) -> None:
    """What holds points alone names the constructor for them."""
    for name, content in (
        ("a.ply", ply("ascii", [])), ("a.obj", FACE), ("a.off", "OFF\n1 0 0\n1 2 3\n"),
        ("a.xyz", "1 2 3\n4 5 6\n"),
    ):  # fmt: skip
        path = written(tmp_path / name, content)
        message = rf"{name} holds no triangles \(PointCloud\): BVH\.from_points takes points"
        with pytest.raises(ValueError, match=message):
            bvh.BVH.from_file(path)
        with pytest.warns(bvh.BVHWarning), pytest.raises(ValueError, match=message):
            bvh.load_scene(path)


def test_strips(tmp_path: Path) -> None:
    """Triangle strips, which end where an index is -1, behind the faces."""
    strips = "element tristrips 2\nproperty list int int vertex_indices\n"
    data = ply("ascii", MIXED[1:2], strips) + b"9 0 1 3 2 -1 1 4 2 5\n2 0 1\n"
    tree = bvh.BVH.from_file(written(tmp_path / "a.ply", data))
    assert tree.faces.tolist() == [
        [1, 4, 5], [0, 1, 3], [3, 1, 2], [1, 4, 2], [2, 4, 5],
    ]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_colours_of_ply(form: str, tmp_path: Path) -> None:
    """Of vertices, or of polygons; and an image with coordinates of corners."""
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (3, 2), (255, 0, 0)).save(tmp_path / "red.png")
    path = tmp_path / "a.ply"
    colours = "".join(f"property uchar {name}\n" for name in ("red", "green", "blue"))
    of_vertices = (
        HEAD.format(form) + colours + "element face 1\nproperty list uchar int vertex_index\n"
    )
    of_faces = (
        HEAD.format(form) + "element face 2\nproperty list uchar int vertex_index\n" + colours
    )
    image_head = HEAD.format(form).replace("element", "comment TextureFile red.png\nelement", 1)
    image_head += (
        "element face 2\nproperty list uchar int vertex_index\nproperty list uchar float texcoord\n"
    )
    quad, uv = MIXED[0], (0.0, 0.0, 1.0, 0.0, 1.0, 1.0)
    painted = [*((*one, 9, 8, 7) for one in SIX), (4, *quad)]
    polygons = [*SIX, (4, *quad, 1, 2, 3), (3, 1, 4, 5, 4, 5, 6)]
    textured = [*SIX, (3, 0, 1, 2, 6, *uv), (3, 1, 4, 5, 6, *uv)]
    files: dict[str, tuple[str, Any, list[str]]] = {
        "vertices": (of_vertices, painted, ["3f3B"] * 6 + ["B4i"]),
        "faces": (of_faces, polygons, ["3f"] * 6 + ["B4i3B", "B3i3B"]),
        "image": (image_head, textured, ["3f"] * 6 + ["B3iB6f"] * 2),
    }
    looks: dict[str, Any] = {}
    for name, (head, rows, codes) in files.items():
        data = f"{head}end_header\n".encode()
        if form == "ascii":
            data += "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
        else:
            mark = "<" if "little" in form else ">"
            pairs = zip(codes, rows, strict=True)
            data += b"".join(struct.pack(mark + code, *row) for code, row in pairs)
        scene = bvh.load_scene(written(path, data))
        looks[name] = scene.attributes(scene[0].child)
    assert looks["vertices"].material.vertex_colors.tolist() == [[9, 8, 7]] * 6
    assert looks["faces"].material.face_colors.tolist() == [[1, 2, 3]] * 2 + [[4, 5, 6]]
    assert looks["image"].material.image.size == (3, 2) and looks["image"].uv.shape == (7, 2)
    assert bvh.BVH.from_file(path).faces.tolist() == [[0, 1, 2], [1, 4, 5]]


# OFF


def test_off(tmp_path: Path) -> None:
    """Faces keep their order; kinds that are not read are refused by name."""
    rows = ["4 0 1 10 9", "3 1 2 11", "4 2 3 12 11 0.5 0.5 0.5", "3 3 4 13 7"]
    points = "".join("{} {} {} # point\n".format(*one) for one in GRID)
    path = tmp_path / "a.off"
    text = "# made\nOFF\n\n18 4 0\n" + points + "\n".join(rows) + "\n"
    for content in (text, text.replace("\nOFF\n\n", "\nSTCNOFF ")):
        tree = bvh.BVH.from_file(written(path, content))
        hits = tree.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(4)], DOWN)
        assert tree.face_of(hits.prim_id).tolist() == [0, 1, 2, 3] and len(tree.vertices) == 18
    for content, message in (
        ("OFF BINARY\n1 2 3", "it is a binary OFF file"),
        ("4OFF\n1 1 1\n", "it is a 4OFF file: only those of three coordinates"),
        ("OOF\n", "it must begin with OFF, got 'OOF'"),
        ("OFF\n2 1\n0 0 0\n", "it is cut off: 1 lines do not hold its 2 vertices and 1 faces"),
        ("OFF\n1 1\n0 0\n3 0 0 0", "line 3: a vertex must have three coordinates"),
        ("OFF\n1 1\n0 0 0\n3 0 0 1", "line 4: 1 is no index of 1 vertices"),
        ("OFF\n1 1\n0 0 0\n3 0 0", "line 4: a face must have a number of corners, and these"),
        ("OFF\n1 1\n0 0 x\n3 0 0 0", "line 3: '0 0 x' are not numbers"),
        ("OFF\n-1 1\n", r"it must have numbers of vertices and faces, got \[-1.0, 1.0\]"),
    ):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.off as a mesh: .*{message}"):
            bvh.BVH.from_file(written(path, content))
    with pytest.warns(bvh.BVHWarning, match="1 lines behind the faces of an OFF file are ignored"):
        assert len(bvh.BVH.from_file(written(path, text + "3 0 1 2\n"))) == 6


# STL


TRIANGLES = trimesh.creation.icosphere(subdivisions=1).triangles.astype("<f4")
FACETS = b"".join(bytes(12) + one.tobytes() + bytes(2) for one in TRIANGLES)


@pytest.mark.parametrize("start", [b"part", b"solid part"])
def test_counts_of_stl(start: bytes, tmp_path: Path) -> None:
    """Facets that are there are read, and a length that does not fit the count is told."""
    path = tmp_path / "a.stl"
    for count, tail, message in (
        (80, b"", ""),
        (80, bytes(7), "7 bytes behind the 80 triangles"),
        (0, b"", "an STL file has 80 triangles, its count says 0: all are read"),
        (2**32 - 1, b"", "an STL file has 80 triangles, its count says 4294967295"),
    ):
        written(path, start.ljust(80, b"\0") + struct.pack("<I", count) + FACETS + tail)
        for read in (bvh.BVH.from_file, lambda one: bvh.load_scene(one)[0].child):
            if message:
                with pytest.warns(bvh.BVHWarning, match=message):
                    tree = read(path)
            else:
                tree = read(path)
            assert np.array_equal(tree.vertices[tree.faces], TRIANGLES)
    for count, size in ((85, 0), (0, 3), (80, -1)):
        data = start.ljust(80, b"\0") + struct.pack("<I", count) + FACETS + bytes(max(size, 0))
        with pytest.raises(ValueError, match="its length does not fit its count: "):
            bvh.BVH.from_file(written(path, data[: len(data) + min(size, 0)]))


def test_solids(tmp_path: Path) -> None:
    """Each is a part, with its name; lines that are no part of a facet are refused."""
    facet = "facet normal 0 0 1\n outer loop\n vertex 0 0 {z}\n vertex 1 0 {z}\n"
    facet += " vertex 0 1 {z}\n endloop\nendfacet\n"
    solids = [f"solid {name}\n{facet.format(z=z)}endsolid {name}\n" for z, name in enumerate("aba")]
    path = written(tmp_path / "a.stl", "".join(solids))
    tree, scene = bvh.BVH.from_file(path), bvh.load_scene(path)
    assert [one.name for one in scene] == ["a", "b", "a_1"]
    assert tree.vertices[:, 2].tolist() == [0.0] * 3 + [1.0] * 3 + [2.0] * 3
    hit = scene.closest_hit([0.2, 0.2, 1.5], DOWN)
    assert scene.name_of(hit.leaf) == "b" and hit.t == 0.5
    assert names_of(written(path, solids[1].upper())) == ["B"]
    for old, new, message in (
        ("vertex 1 0 0", "vertex 1 0", "line 5: a vertex must have three coordinates"),
        ("vertex 1 0 0", "vertex 1 0 o", "line 5: a vertex must have three coordinates"),
        (" vertex 1 0 0\n", "", "line 6: it is no part of a facet"),
        ("endfacet\n", "", "line 8: it is no part of a facet"),
    ):
        with pytest.raises(ValueError, match=message):
            bvh.BVH.from_file(written(path, solids[0].replace(old, new)))


# All of them.


def test_archives(tmp_path: Path) -> None:
    """A tree of an archive and its scene agree, with polygons in their order."""
    paths = [car(tmp_path), written(tmp_path / "b.ply", ply("ascii", MIXED))]
    trimesh.creation.box().export(tmp_path / "c.glb")
    for extra in ([], [tmp_path / "c.glb"]):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for path in [*paths, *extra, tmp_path / "a b.mtl", tmp_path / "red.png"]:
                archive.write(path, path.name)
        tree, scene = bvh.BVH.from_file(tmp_path / "a.zip"), bvh.load_scene(tmp_path / "a.zip")
        assert [one.name for one in scene][:5] == ["door", "door_1", "roof", "roof_1", "b.ply"]
        assert len(tree) == sum(len(one.child) for one in scene) == 12 + 12 * len(extra)
        hits = tree.closest_hit([[k + 0.6, 0.3, 5.0] for k in range(5)], DOWN)
        assert tree.face_of(hits.prim_id).tolist() == [0, 1, 2, 3, 4]
        look: Any = scene.attributes(scene[1].child).material
        assert look.image.size == (2, 2)


CORE = "http://schemas.microsoft.com/3dmanufacturing"
XMLNS = f'xmlns="{CORE}/core/2015/02" xmlns:p="{CORE}/production/2015/06"'


def model(objects: str, items: str = "") -> str:
    return f"<model {XMLNS}><resources>{objects}</resources><build>{items}</build></model>"


def triangle(number: int, z: float) -> str:
    points = "".join(f'<vertex x="{x}" y="{y}" z="{z}"/>' for x, y in ((0, 0), (1, 0), (0, 1)))
    faces = '<triangle v1="0" v2="1" v3="2"/>'
    mesh = f"<vertices>{points}</vertices><triangles>{faces}</triangles>"
    return f'<object id="{number}" name="n{number}"><mesh>{mesh}</mesh></object>'


def test_objects_of_other_models(tmp_path: Path) -> None:
    """A component of another model of a 3MF file is the object that it names, and only that."""
    parts = "".join(
        f'<component p:path="/3D/o.model" objectid="{k}" transform="1 0 0 0 1 0 0 0 1 0 0 {z}"/>'
        for k, z in ((1, 0), (2, 10), (1, 20))
    )
    root = model(
        f'{triangle(1, 50.0)}<object id="3"><components>{parts}</components></object>',
        '<item objectid="3"/><item objectid="1"/>',
    )
    files = {"3D/3dmodel.model": root, "3D/o.model": model(triangle(1, 0.0) + triangle(2, 5.0))}
    path = tmp_path / "a.3mf"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    merged = with_one_model({name: text.encode() for name, text in files.items()})
    found = ElementTree.fromstring(merged["3D/3dmodel.model"])
    ids = [one.get("id") for one in found.iter() if one.tag.endswith("}object")]
    assert ids == ["1", "3", "3D/o.model#1", "3D/o.model#2"]
    used = [one.get("objectid") for one in found.iter() if one.tag.endswith(("component", "item"))]
    assert used == ["3D/o.model#1", "3D/o.model#2", "3D/o.model#1", "3", "1"]
    with pytest.raises(ValueError, match=r"it has no '3D/o\.model', which it names"):
        with_one_model({"3D/3dmodel.model": root.encode()})
    pytest.importorskip("lxml")
    pytest.importorskip("networkx")
    tree, scene = bvh.BVH.from_file(path), bvh.load_scene(path)
    assert sorted(tree.vertices[:, 2].tolist()) == sorted([0.0, 15.0, 20.0, 50.0] * 3)
    assert len(scene) == 4 and all(len(one.child) == 1 for one in scene)


def test_collada(tmp_path: Path) -> None:
    """What is left out of a COLLADA file is told."""
    text = "<COLLADA><library_geometries/><tristrips count='1'/><trifans/></COLLADA>"
    path = written(tmp_path / "a.dae", text)
    with (
        pytest.warns(bvh.BVHWarning, match="a COLLADA file are left out: trifans, tristrips"),
        pytest.raises((ValueError, ImportError)),
    ):
        bvh.BVH.from_file(path)


def test_paths_are_no_triangles(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    path: Any = trimesh.load_path(np.eye(3)[:, :2])
    path.export(str(tmp_path / "a.dxf"))
    with pytest.raises(ValueError, match=r"a\.dxf holds no triangles \(Path2D\)$"):
        bvh.BVH.from_file(tmp_path / "a.dxf")
