"""Slow readers of files of meshes: line by line, word by word; and other libraries' readers."""

from __future__ import annotations

import io
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

# Points, polygons.
Read = tuple[np.ndarray, list[list[int]]]

# As numbers are written in files; Python takes more, such as 1_0.
NUMBER = rb"[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+(e[+-]?\d+)?|inf|infinity|nan)"


def real(word: bytes) -> float:
    if not re.fullmatch(NUMBER, word, re.IGNORECASE):
        raise ValueError(word)
    return float(word)


def whole(word: bytes) -> int:
    if not re.fullmatch(rb"[+-]?\d+", word):
        raise ValueError(word)
    return int(word)


def words_of(line: bytes) -> list[bytes]:
    """Return words between bytes up to a space: control characters count as white space."""
    return [word for word in re.split(rb"[\x00-\x20]+", line) if word]


def lines_of(data: bytes) -> list[bytes]:
    return (data if b"\n" in data else data.replace(b"\r", b"\n")).split(b"\n")


def read_obj(data: bytes) -> Read:
    """Read an OBJ file."""
    lines: list[bytes] = []
    goes_on = False
    for line in lines_of(data):
        line = line.removesuffix(b"\r")
        line = lines.pop() + line if goes_on else line
        goes_on = line.endswith(b"\\") and bool(re.match(rb"\s*(v|vt|vn|f|l|p)[\s\\]", line))
        lines.append(line[:-1] + b" " if goes_on else line)
    found: dict[bytes, list[list[float]]] = {b"v": [], b"vt": [], b"vn": []}
    faces: list[list[int]] = []
    has_others = False
    for line in lines:
        first = words_of(line)[:1]
        if first and first[0][:1] in (b"v", b"f"):
            line = line.split(b"#")[0]
        words = words_of(line)
        if not words:
            continue
        if words[0] in found:
            values = [real(word) for word in words[1:]]
            least, most = {b"v": (3, 8), b"vt": (1, 3), b"vn": (3, 3)}[words[0]]
            if not least <= len(values) <= most:
                raise ValueError(line)
            found[words[0]].append(values[:3])
        elif words[0] == b"f":
            face = []
            for word in words[1:]:
                parts = word.split(b"/")
                if len(parts) > 3 or not parts[0]:
                    raise ValueError(word)
                for part, name in zip(parts, found, strict=False):
                    if not part:
                        continue
                    row = whole(part)
                    # Wrong indices of vt and vn are ignored.
                    if name != b"v":
                        continue
                    row = row - 1 if row > 0 else len(found[name]) + row if row < 0 else -1
                    if row < 0:
                        raise ValueError(word)
                    face.append(row)
            faces.append(face)
        elif words[0] in (b"l", b"p", b"fo", b"surf", b"curv", b"curv2", b"call", b"csh"):
            has_others = True
    if has_others and not faces:
        raise ValueError("no faces")
    if any(row >= len(found[b"v"]) for face in faces for row in face):
        raise ValueError("index")
    return np.array(found[b"v"]).reshape(-1, 3), faces


def read_off(data: bytes) -> Read:
    """Read an OFF file."""
    lines = [line.split(b"#")[0] for line in lines_of(data)]
    text = b"\n".join(lines)
    keyword = re.match(rb"\s*(ST)?C?N?OFF(?=[\s\d])(?!\s+BINARY\b)", text)
    if keyword is None:
        raise ValueError("keyword")
    rows = [words_of(line) for line in text[keyword.end() :].split(b"\n")]
    rows = [row for row in rows if row]
    values = [[real(word) for word in row] for row in rows]
    points, faces = (int(x) if x == int(x) and x >= 0 else -1 for x in values[0][:2])
    if min(points, faces) < 0 or 1 + points + faces > len(values):
        raise ValueError("counts")
    if any(len(row) < 3 for row in values[1 : 1 + points]):
        raise ValueError("vertex")
    polygons = []
    for row in values[1 + points : 1 + points + faces]:
        count = int(row[0])
        face = row[1 : 1 + count]
        if count != row[0] or count < 0 or len(face) < count:
            raise ValueError("face")
        if any(x != int(x) or not 0 <= x < points for x in face):
            raise ValueError("index")
        polygons.append([int(x) for x in face])
    return np.array([row[:3] for row in values[1 : 1 + points]]).reshape(-1, 3), polygons


def read_stl(data: bytes) -> Read:
    """Read an STL file."""
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    is_text = data.lstrip()[:5].lower() == b"solid" and b"\0" not in data
    if count >= 0 and (len(data) == 84 + 50 * count or not is_text):
        whole, more = divmod(len(data) - 84, 50)
        if (count == 0 and whole) or (count == 2**32 - 1 and whole):
            count = -1 if more else whole
        if count < 0 or count > whole:
            raise ValueError("count")
        rows = [struct.unpack_from("<12x9f", data, 84 + 50 * k) for k in range(count)]
        points = np.array(rows, np.float64).reshape(-1, 3)
    elif is_text:
        corners: list[list[float]] = []
        state = 0
        order = [b"facet", b"outer", b"vertex", b"vertex", b"vertex", b"endloop", b"endfacet"]
        for line in lines_of(data):
            words = words_of(line)
            word = words[0].lower() if words else b""
            if word in (b"solid", b"endsolid") and state:
                raise ValueError(line)
            if word not in order:
                continue
            if word != order[state]:
                raise ValueError(line)
            if word == b"vertex":
                if len(words) != 4:
                    raise ValueError(line)
                corners.append([real(one) for one in words[1:]])
            state = (state + 1) % 7
        if state:
            raise ValueError("end")
        points = np.array(corners).reshape(-1, 3)
    else:
        raise ValueError("length")
    return points, np.arange(len(points)).reshape(-1, 3).tolist()


def by_plyfile(data: bytes) -> Read:
    """Read a PLY file by plyfile."""
    import plyfile

    read = plyfile.PlyData.read(io.BytesIO(data))
    vertex, face = read["vertex"], read["face"]
    names = [one.name for one in face.properties]
    name = next(name for name in ("vertex_indices", "vertex_index") if name in names)
    points = np.stack([np.asarray(vertex[axis], np.float64) for axis in "xyz"], axis=1)
    return points, [np.asarray(one).tolist() for one in face[name]]


def by_tinyobjloader(path: Path) -> tuple[np.ndarray, list[list[int]], list[str]]:
    """Read an OBJ file by tinyobjloader: points, faces, and the name of each."""
    import tinyobjloader

    reader, options = tinyobjloader.ObjReader(), tinyobjloader.ObjReaderConfig()
    options.triangulate = False
    if not reader.ParseFromFile(str(path), options):
        raise ValueError(reader.Error())
    faces: list[list[int]] = []
    names: list[str] = []
    for shape in reader.GetShapes():
        rows = [int(index.vertex_index) for index in shape.mesh.indices]
        ends = np.cumsum(np.asarray(shape.mesh.num_face_vertices, np.int64)).tolist()
        faces += [rows[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        names += [shape.name] * len(ends)
    return np.array(reader.GetAttrib().vertices).reshape(-1, 3), faces, names


def by_vtk(path: Path) -> Read:
    """Read an OFF or STL file by VTK."""
    import pyvista
    import vtk

    reader: Any = vtk.vtkSTLReader() if path.suffix == ".stl" else vtk.vtkOFFReader()
    reader.SetFileName(str(path))
    if path.suffix == ".stl":
        reader.MergingOff()
    reader.Update()
    mesh: Any = pyvista.wrap(reader.GetOutput())
    return np.asarray(mesh.points, np.float64), [face.tolist() for face in mesh.irregular_faces]
