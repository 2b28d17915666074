"""Windows of files: any layout gives what the whole file does, damage an error that names it."""

from __future__ import annotations

import os
import re
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh
from bvh.distributed.out_of_core import mesh_windows
from bvh.distributed.out_of_core.mesh_windows import windows_of
from bvh.io.mesh_files import read_file
from bvh.io.meshes import surface_of
from bvh.runtime.arguments import face_rows, rows
from tests.cases.families import sphere

# A type of PLY, and of `struct`.
TYPES = {
    "char": "b", "uchar": "B", "int16": "h", "ushort": "H", "int": "i", "uint32": "I",
    "float": "f", "float64": "d",
}  # fmt: skip
LIST = ["list", "uchar", "int", "vertex_indices"]


def corners_in_windows(path: Path) -> NDArray[Any]:
    found = [window.corners for window in windows_of(path)]
    return np.concatenate([np.empty((0, 3, 3)), *found])


def corners_of_whole(path: Path) -> NDArray[Any]:
    vertices, faces, _ = surface_of(read_file(path, "a mesh"))
    points = rows("vertices", vertices)
    return points[face_rows("faces", faces, len(points))]


def packed(order: str, properties: Any, choose: Any, corners: Any = ()) -> bytes:
    """Return a row of an element."""
    row = b""
    for kind, *rest in properties:
        if kind == "list":
            row += struct.pack(order + TYPES[rest[0]], len(corners))
            row += struct.pack(f"{order}{len(corners)}{TYPES[rest[1]]}", *corners)
        else:
            row += struct.pack(order + TYPES[kind], choose(kind))
    return row


def ply(
    vertex: Any, face: Any, rng: np.random.Generator, order: str = "<", sizes: Any = (3,),
    count: int = 12, faces: int = 9,
) -> tuple[bytes, list[tuple[str, int, Any, bytes]]]:  # fmt: skip
    """Return the first lines of a PLY file, and its elements with their rows."""

    def choose(kind: str) -> Any:
        return rng.uniform(-5, 5) if TYPES[kind] in "fd" else int(rng.integers(100))

    body = [packed(order, vertex, choose) for _ in range(count)]
    lists = [rng.permutation(count)[: rng.choice(sizes)].tolist() for _ in range(faces)]
    cells = [packed(order, face, choose, corners) for corners in lists]
    name = "little" if order == "<" else "big"
    begin = f"ply\nformat binary_{name}_endian 1.0\ncomment of a test\n".encode()
    return begin, [
        ("vertex", count, vertex, b"".join(body)), ("face", faces, face, b"".join(cells))
    ]  # fmt: skip


def written(begin: bytes, elements: Any) -> bytes:
    text = begin.decode()
    for name, count, properties, _ in elements:
        text += f"element {name} {count}\n"
        text += "".join(f"property {' '.join(words)}\n" for words in properties)
    return (text + "end_header\n").encode() + b"".join(body for *_, body in elements)


def xyz(kind: str = "float") -> list[list[str]]:
    return [[kind, axis] for axis in "xyz"]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_windows, "WINDOW", 4)


@pytest.fixture
def never_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse to read a file whole: it may be larger than memory."""

    def refuse(*_: object) -> None:
        pytest.fail("was read whole")

    monkeypatch.setattr(mesh_windows, "read_file", refuse)


LAYOUTS: dict[str, Any] = {
    "floats": (xyz(), [LIST]),
    "doubles": (xyz("float64"), [LIST]),
    "other order": (xyz()[::-1], [LIST]),
    "more properties": (
        [["uchar", "red"], *xyz(), ["float64", "length"]],
        [["int16", "length"], LIST, ["float", "corners"]],
    ),
    "lists of other types": (xyz(), [["list", "int", "uchar", "vertex_index"]]),
    "unsigned corners": (xyz(), [["list", "ushort", "uint32", "vertex_indices"]]),
}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, order: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "one.ply"
    path.write_bytes(written(*ply(*LAYOUTS[layout], rng, order)))
    found = list(windows_of(path))
    assert [len(window.corners) for window in found] == [4, 4, 1]
    np.testing.assert_array_equal(corners_in_windows(path), corners_of_whole(path))


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("quads", [4]),
        ("polygons", [3, 4, 5]),
        ("as long as triangles", [2, 4]),
        ("faces first", [3]),
        ("a list before", [3]),
        ("texture", [3]),
        ("windows' lines", [3]),
        ("in a comment", [3]),
    ],
)
def test_what_is_read_whole_or_in_windows(
    kind: str, sizes: list[int], tmp_path: Path, rng: np.random.Generator
) -> None:
    """A reader that cannot read it says so, and we do; we never answer otherwise than it."""
    face = [LIST, ["list", "uchar", "float", "texcoord"]] if kind == "texture" else [LIST]
    begin, elements = ply(xyz(), face, rng, sizes=sizes)
    if kind == "faces first":
        elements.reverse()
    elif kind == "a list before":
        strips = [["list", "int", "int", "strip"]]
        elements.insert(0, ("strips", 1, strips, struct.pack("<iii", 2, 0, 1)))
    elif kind == "in a comment":
        begin += b"comment the end_header is below\n"
    content = written(begin, elements)
    if kind == "windows' lines":
        head, body = content.split(b"end_header\n")
        content = (head + b"end_header\n").replace(b"\n", b"\r\n") + body
    path = tmp_path / "one.ply"
    path.write_bytes(content)
    try:
        wanted = corners_of_whole(path)
    except ValueError:
        if kind not in ("windows' lines", "in a comment"):
            with pytest.raises(ValueError, match=r"source, .*one\.ply"):
                corners_in_windows(path)
    else:
        np.testing.assert_array_equal(corners_in_windows(path), wanted)


@pytest.mark.usefixtures("never_whole")
def test_a_file_that_is_cut_off_anywhere(tmp_path: Path, rng: np.random.Generator) -> None:
    begin, elements = ply(xyz(), [LIST], rng, count=5, faces=6)
    content, path = written(begin, elements), tmp_path / "one.ply"
    for size in range(content.index(b"end_header\n") + 11, len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"source, .*one\.ply: is cut off"):
            corners_in_windows(path)
    path.write_bytes(content)
    assert len(corners_in_windows(path)) == 6
    path.write_bytes(content + b"\n")
    with pytest.raises(ValueError, match="is damaged"):
        corners_in_windows(path)


@pytest.mark.usefixtures("never_whole")
@pytest.mark.parametrize("element", ["vertex", "face"])
@pytest.mark.parametrize("count", [100, 2**31, 2**63, 10**30])
def test_counts_that_are_too_large(
    count: int, element: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    content = written(*ply(xyz(), [LIST], rng)).replace(b"face 9", b"face %d" % count)
    if element == "vertex":
        content = content.replace(b"face %d" % count, b"face 9").replace(
            b"vertex 12", b"vertex %d" % count
        )
    path = tmp_path / "one.ply"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is cut off"):
        corners_in_windows(path)


@pytest.mark.filterwarnings("ignore:a line in the header of a PLY file is ignored")
@pytest.mark.parametrize("how", ["flipped", "cut", "counted", "longer"])
def test_damage_at_random(how: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Either the answer of the whole file, or an error."""
    path, layouts = tmp_path / "one.ply", list(LAYOUTS.values())
    for turn in range(60):
        begin, elements = ply(*layouts[turn % len(layouts)], rng, "<>"[turn % 2])
        content = bytearray(written(begin, elements))
        if how == "flipped":
            header = content.index(b"end_header")
            content[rng.integers(header if turn % 3 else len(content))] = rng.integers(256)
        elif how == "cut":
            del content[rng.integers(len(content)) :]
        elif how == "longer":
            content += bytes(int(rng.integers(1, 99)))
        else:
            wrong = rng.choice([-1, 0, 1, 8, 13])
            content = re.sub(rb"face \d+", f"face {wrong}".encode(), content)
        path.write_bytes(content)
        try:
            found = corners_in_windows(path)
        except (ValueError, TypeError) as error:
            assert "one.ply" in str(error)
            continue
        try:
            wanted = corners_of_whole(path)
        except (ValueError, TypeError):
            continue
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("missing", ["x", "face", "list"])
def test_what_is_no_mesh(missing: str, tmp_path: Path, rng: np.random.Generator) -> None:
    begin, elements = ply(xyz(), [LIST], rng)
    if missing == "x":
        begin, elements = ply([["float", "w"], *xyz()[1:]], [LIST], rng)
    elif missing == "list":
        begin, elements = ply(xyz(), [["int", "number"]], rng)
    else:
        elements = [element for element in elements if element[0] != missing]
    path = tmp_path / "one.ply"
    path.write_bytes(written(begin, elements))
    with pytest.raises((ValueError, TypeError), match=r"source, .*one\.ply"):
        corners_in_windows(path)


def test_a_mesh_as_a_pair_or_list(tmp_path: Path) -> None:
    """Vertices and faces are one mesh in a tuple or list; pairs of them are several."""
    vertices, faces = sphere(1)
    plain = [vertices.tolist(), faces.tolist()]
    for k, one in enumerate(((vertices, faces), [vertices, faces], plain, [plain])):
        assert len(bvh.partition(one, tmp_path / f"{k}").sources) == 1
    assert len(bvh.partition([plain, (vertices, faces)], tmp_path / "two").sources) == 2


@pytest.mark.parametrize("count", [0, 12])
def test_no_faces(count: int, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "one.ply"
    path.write_bytes(written(*ply(xyz(), [LIST], rng, count=count, faces=0)))
    assert len(corners_in_windows(path)) == 0
    parts = bvh.partition([path, sphere(1)], tmp_path / "parts")
    assert [source.triangles for source in parts.sources] == [0, len(sphere(1)[1])]


def test_faces_of_vertices_that_there_are_not(tmp_path: Path, rng: np.random.Generator) -> None:
    content = written(*ply(xyz(), [LIST], rng))
    path = tmp_path / "one.ply"
    for wrong in (12, -1, 2**31 - 1, -(2**31)):
        path.write_bytes(content[:-4] + struct.pack("<i", wrong))
        with pytest.raises(ValueError, match=r"source, .*one\.ply"):
            corners_in_windows(path)


def stl(header: bytes, count: int, more: bytes = b"") -> bytes:
    triangles = np.zeros(count, mesh_windows.STL_ROW)
    triangles["corners"] = np.random.default_rng(3).normal(size=(count, 3, 3))
    return header.ljust(80) + count.to_bytes(4, "little") + triangles.tobytes() + more


@pytest.mark.usefixtures("never_whole")
@pytest.mark.parametrize("header", [b"", b"solid", b" solid part"])
def test_binary_stl(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "one.stl"
    content = stl(header, 9)
    path.write_bytes(content)
    assert [len(window.corners) for window in windows_of(path)] == [4, 4, 1]
    too_many = content[:80] + (10).to_bytes(4, "little") + content[84:]
    for wrong in (content[:-1], content[:-50], content[:90], too_many):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"source, .*one\.stl: is damaged"):
            corners_in_windows(path)
    path.write_bytes(stl(header, 0))
    assert len(corners_in_windows(path)) == 0


@pytest.mark.parametrize("count, more", [(30, b""), (30, b"end\n"), (0, b""), (2**32 - 1, b"")])
def test_binary_stl_is_as_read_whole(count: int, more: bytes, tmp_path: Path) -> None:
    """Also with bytes behind the triangles, or an unknown count, both of which are warned about."""
    path = tmp_path / "one.stl"
    content = stl(b"solid", 30, more)
    path.write_bytes(content[:80] + count.to_bytes(4, "little") + content[84:])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corners = corners_in_windows(path)
    assert len(caught) == (count != 30 or more != b"")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(corners, corners_of_whole(path))


@pytest.mark.parametrize("ending", ["ply", "stl"])
def test_files_that_shrink(ending: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / f"one.{ending}"
    path.write_bytes(stl(b"", 9) if ending == "stl" else written(*ply(xyz(), [LIST], rng)))
    windows = windows_of(path)
    next(windows)
    os.truncate(path, path.stat().st_size - 20)
    with pytest.raises(ValueError, match="was changed while it was read"):
        list(windows)
