"""PLY, OFF, STL and 3MF files as programs write them: in the order of the file, or refused."""

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
from bvh.io.formats.threemf_files import with_one_model
from bvh.io.mesh_files import _made_safe
from bvh.io.untrusted_files import Allowance
from tests.cases.written_meshes import DOWN, FACE, GRID, car, names_of, written

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
        (data + b"7", "(bytes|lines) after the last row of its header"),
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
        (data.replace(b"element face", b"by me\nelement face"), "its header has a line 'by me'"),
    ):
        with pytest.raises(ValueError, match=rf"cannot read .*a\.ply as a mesh: .*({message})"):
            bvh.BVH.from_file(written(path, content))


def test_lengths_whose_sum_wraps_around(tmp_path: Path) -> None:
    """Four lists of 2**62 items: their sum is 0 modulo 2**64, and the file has no such lists."""
    head, end, _ = ply("ascii", MIXED, kind="int64 int").partition(b"end_header\n")
    rows = "".join("{} {} {}\n".format(*one) for one in SIX) + f"{2**62} 0 1 2\n" * 4
    head = head.replace(b"face 3", b"face 4")
    with pytest.raises(ValueError, match=f"it is cut off: its lists have {2**64} numbers"):
        bvh.BVH.from_file(written(tmp_path / "a.ply", head + end + rows.encode()))


def test_headers_that_do_not_tell_all(tmp_path: Path) -> None:
    """A comment without its keyword, and words in all lines that no property is for."""
    data = ply("ascii", MIXED)
    path = written(tmp_path / "a.ply", data.replace(b"1.0\n", b"1.0\nCreated by Blender\n", 1))
    with pytest.warns(bvh.BVHWarning, match="header of a PLY file is ignored: 'Created by B"):
        faces = bvh.BVH.from_file(path).faces
    head, end, rows = data.partition(b"end_header\n")
    lines = rows.splitlines()
    more = [line + (b" 9 1 1" if k >= len(SIX) else b"") for k, line in enumerate(lines)]
    written(path, head + end + b"\n".join(more) + b"\n")
    with pytest.warns(bvh.BVHWarning, match="3 words at the end of all lines of face"):
        assert np.array_equal(bvh.BVH.from_file(path).faces, faces)
    more[-1] += b" 1"
    with pytest.raises(ValueError, match=f"face {len(MIXED) - 1} and its line do not end together"):
        bvh.BVH.from_file(written(path, head + end + b"\n".join(more) + b"\n"))


def test_comments_beyond_ascii(tmp_path: Path) -> None:
    """Bytes of letters in UTF-8 end no lines, also where Unicode has line ends of that code."""
    for comment in ("comment by Åke\n", "obj_info \x1c\x0b\x0c of a\n"):
        for line in (b"element face", b"end_header"):
            data = ply("ascii", MIXED).replace(line, comment.encode() + line)
            assert len(bvh.BVH.from_file(written(tmp_path / "a.ply", data)).faces) == 4


def test_off_without_a_space(tmp_path: Path) -> None:
    """The counts may follow the keyword at once, behind empty lines and spaces."""
    text = " \t \n   OFF3 1 0 # nothing\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    assert bvh.BVH.from_file(written(tmp_path / "a.off", text)).faces.tolist() == [[0, 1, 2]]


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
        ("# made\n\nOFF\n1 1\n0 0 x\n3 0 0 0", "line 5: '0 0 x' are not numbers"),
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
    """Facets that are there are read, with a warning if the length does not fit the count."""
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


def test_names_in_archives(tmp_path: Path) -> None:
    """They are the same each time. What only meshio reads in full is left out, with a warning.

    So is nothing else: endings such as .xml are of other files, too. "world" is a node of trimesh.
    """
    mesh = trimesh.creation.box()
    boxes = {"a": mesh, "b": mesh}
    solid, scene = mesh.export(file_type="stl_ascii"), trimesh.Scene(boxes).export(file_type="glb")
    files = {"x/a.stl": solid, "y/a.stl": solid, "1.glb": scene, "2.glb": scene}
    files["w.obj"] = "o world\n" + mesh.export(file_type="obj")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name, data in (files | dict.fromkeys(("c.vtu", "readme.xml", "d.dat"), "")).items():
            archive.writestr(name, data)
    text = r"c\.vtu, which is in an archive, is left out: it is read by meshio, .*: unpack it"
    with pytest.warns(bvh.BVHWarning, match=text) as warned:
        names = [one.name for one in bvh.load_scene(tmp_path / "a.zip")]
    assert len(warned) == 1
    assert sorted(names) == sorted(["a.stl", "a.stl_1", "a", "b", "a_1", "b_1", "world_1"])


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
    # trimesh leaves out what is missing; a text in UTF-16 is read, too.
    missing, none = model(triangle(1, 0.0), '<item objectid="5"/>'), model(triangle(1, 0.0), "")
    for code in ("utf-8", "utf-16"):
        with pytest.raises(ValueError, match="it refers to object '5', which it does not have"):
            with_one_model({"3D/3dmodel.model": missing.encode(code)})
        with pytest.raises(ValueError, match="its build has no items"):
            with_one_model({"3D/3dmodel.model": none.encode(code)})
    # Comments count for nothing, also those of several lines.
    sound = model(triangle(1, 0.0), '<item objectid="1"/><!--\n<item objectid="9"/> -->')
    with_one_model({"3D/3dmodel.model": sound.encode()})
    lost = model(f"<!-- {triangle(5, 0.0)} -->", '<item objectid="5"/>')
    with pytest.raises(ValueError, match="it refers to object '5', which it does not have"):
        with_one_model({"3D/3dmodel.model": lost.encode()})
    with pytest.raises(ValueError, match=r"it has no 3D/3dmodel\.model"):
        with_one_model({"3D/other.model": root.encode()})
    pytest.importorskip("lxml")
    pytest.importorskip("networkx")
    tree, scene = bvh.BVH.from_file(path), bvh.load_scene(path)
    assert sorted(tree.vertices[:, 2].tolist()) == sorted([0.0, 15.0, 20.0, 50.0] * 3)
    assert len(scene) == 4 and all(len(one.child) == 1 for one in scene)


def test_collada(tmp_path: Path) -> None:
    """Elements of a COLLADA file that are left out give a warning."""
    text = "<COLLADA><library_geometries/><tristrips count='1'/><trifans/></COLLADA>"
    path = written(tmp_path / "a.dae", text)
    with (
        pytest.warns(bvh.BVHWarning, match="a COLLADA file are left out: trifans, tristrips"),
        pytest.raises((ValueError, ImportError)),
    ):
        bvh.BVH.from_file(path)


def test_collada_in_an_archive(tmp_path: Path) -> None:
    """It is read from its begin, although a check for an archive has read it before."""
    data = b"<COLLADA/>" * 9
    path = written(tmp_path / "a.zip", data)
    stream, form, _ = _made_safe("a.dae", data, None, Allowance(str(path)))
    assert (stream.read(), form) == (data, "dae")


def test_paths_are_no_triangles(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    path: Any = trimesh.load_path(np.eye(3)[:, :2])
    # The exporter sets how all arrays are printed.
    with np.printoptions():
        path.export(str(tmp_path / "a.dxf"))
    with pytest.raises(ValueError, match=r"a\.dxf holds no triangles \(Path2D\)$"):
        bvh.BVH.from_file(tmp_path / "a.dxf")
