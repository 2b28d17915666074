"""Files of meshes at random, as their formats allow them, with what they hold; and spoiled ones."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh

Rng = np.random.Generator

GRID = [(x, y, 0.0) for y in (0.0, 1.0) for x in range(9)]
DOWN = [0.0, 0.0, -1.0]
FACE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"


def written(path: Path, content: str | bytes) -> Path:
    """Write a file."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def names_of(path: Path) -> list[str | None]:
    """Return the names of the parts of a file."""
    return [one.name for one in bvh.load_scene(path)]


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


@dataclass
class Written:
    """A file, and what it holds: points, polygons, and a name for each polygon."""

    data: bytes = b""
    points: list[list[float]] = field(default_factory=list)
    faces: list[list[int]] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    # For other readers: whether it has what not all of them know.
    is_plain: bool = True

    def array(self) -> np.ndarray:
        return np.array(self.points, np.float64).reshape(-1, 3)


def number(rng: Rng) -> str:
    """Return a number as some program writes it."""
    x = float(rng.normal() * 10.0 ** rng.integers(-3, 4))
    forms = (f"{x:g}", f"{x:.6f}", repr(x), f"{x:e}", f"{x:+.3f}", f"{round(x)}", f"{x:.3E}")
    return str(rng.choice(forms))


def obj(rng: Rng) -> Written:
    """Return an OBJ file."""
    made = Written()
    plain = made.is_plain = bool(rng.random() < 0.5)
    counts = dict.fromkeys(("v", "vt", "vn"), 0)
    lines: list[str] = []
    owner = group = None
    named: list[tuple[str | None, str | None]] = []
    relative, ahead = rng.random() < 0.5, 0
    # Not all readers agree on a file with objects and groups.
    words_of_names = ["o", "g", "usemtl"] if not plain else ["og"[rng.integers(2)], "usemtl"]
    for _ in range(int(rng.integers(3, 40))):
        kind = str(rng.choice(["v"] * 5 + ["vt", "vn", "f", "f", "f", "name", "other"]))
        if kind in counts:
            width = {"v": rng.choice([3, 3, 3, 4, 6, 7]), "vt": rng.integers(1, 4), "vn": 3}[kind]
            if plain:
                width = {"v": 3, "vt": 2, "vn": 3}[kind]
            words = [number(rng) for _ in range(int(width))]
            counts[kind] += 1
            if kind == "v":
                made.points.append([float(word) for word in words[:3]])
            lines.append(" ".join([kind, *words]))
        elif kind == "f" and counts["v"] > 2:
            corners, face = [], []
            for _ in range(int(rng.choice([3, 3, 3, 4, 5, 9]))):
                words, last = [], 0
                for k, (name, count) in enumerate(counts.items()):
                    if k and (count == 0 or rng.random() < 0.3):
                        words.append("")
                        continue
                    row = int(rng.integers(count + (name == "v" and not relative and not plain)))
                    ahead = max(ahead, row + 1) if name == "v" else ahead
                    if name == "v":
                        face.append(row)
                    words.append(str(row - count if relative and rng.random() < 0.7 else row + 1))
                    last = k
                corners.append("/".join(words[: last + 1]))
            if not plain and "/" not in corners[0] and rng.random() < 0.2:
                corners[0] += "/"
            lines.append(" ".join(["f", *corners]))
            made.faces.append(face)
            named.append((owner, group))
        elif kind == "name":
            word = str(rng.choice(words_of_names))
            name = str(rng.choice(["wheel", "door 1", "glass#2", "été", ""][: 4 if plain else 5]))
            lines.append(f"{word} {name}".strip())
            if word == "o":
                owner, group = name or None, None
            elif word == "g":
                group = name or None
        elif kind == "other":
            lines.append(
                str(
                    rng.choice(
                        ["# f 1 2 3", "", "s 1", "s off", "#v", "  ", "# C:\\", "mtllib a b.mtl"]
                    )
                )
            )
    while len(made.points) < ahead:
        made.points.append([0.0, 1.0, 2.0])
        lines.append("v 0 1 2")
    if not plain:
        for k, line in enumerate(lines):
            if line[:1] in ("v", "f") and rng.random() < 0.1:
                lines[k] = line + str(rng.choice(["  # note", " \t", "#1 2"]))
            elif line[:1] in ("v", "f") and rng.random() < 0.1:
                words = line.split(" ")
                at = int(rng.integers(1, len(words)))
                lines[k] = " ".join(words[:at]) + " \\\n " + " ".join(words[at:])
            if rng.random() < 0.1:
                lines[k] = str(rng.choice([" ", "\t"])) + lines[k]
        lines = [
            line.replace(" ", str(rng.choice(["  ", "\t"])))
            if rng.random() < 0.05 and line[:1] in "vf"
            else line
            for line in lines
        ]
    text = "\n".join(lines) + ("\n" if rng.random() < 0.8 else "")
    if not plain and rng.random() < 0.3:
        text = text.replace("\n", "\r\n")
    made.data = text.encode("utf-8" if rng.random() < 0.8 or plain else "latin-1")
    groups: dict[str | None, set[str | None]] = {}
    for owner, group in named:
        groups.setdefault(owner, set()).add(group)
    for owner, group in named:
        one = owner is not None and len(groups[owner]) == 1
        made.names.append(owner if one else group or owner)
    return made


def off(rng: Rng) -> Written:
    """Return an OFF file."""
    made = Written()
    plain = made.is_plain = bool(rng.random() < 0.5)
    count = int(rng.integers(3, 12))
    keyword = (
        "OFF" if plain else str(rng.choice(["OFF", "COFF", "NOFF", "STOFF", "CNOFF", "STCNOFF"]))
    )
    made.points = []
    rows = []
    for _ in range(count):
        words = [number(rng) for _ in range(3)]
        made.points.append([float(word) for word in words])
        rows.append(" ".join(words + [number(rng) for _ in range(0 if plain else rng.integers(5))]))
    for _ in range(int(rng.integers(1, 9))):
        face = rng.integers(0, count, rng.choice([3, 3, 4, 5, 8])).tolist()
        made.faces.append(face)
        colours = [] if plain else ["0.5", "255", "1"] * int(rng.integers(2))
        rows.append(" ".join(map(str, [len(face), *face, *colours])))
    made.names = [None] * len(made.faces)
    head = f"{count} {len(made.faces)}{' 0' if plain or rng.random() < 0.7 else ''}"
    lines = [f"{keyword} {head}"] if not plain and rng.random() < 0.2 else [keyword, head]
    for row in rows:
        if not plain and rng.random() < 0.1:
            lines.append(str(rng.choice(["", "# 3 0 1 2", "  "])))
        lines.append(row + (" # note" if not plain and rng.random() < 0.1 else ""))
    text = "\n".join(lines) + "\n"
    if not plain and rng.random() < 0.3:
        text = text.replace("\n", "\r\n")
    made.data = text.encode()
    return made


def stl(rng: Rng) -> Written:
    """Return an STL file, of text or binary."""
    made = Written()
    count = int(rng.integers(1, 9))
    if rng.random() < 0.4:
        corners = rng.normal(size=(count, 3, 3)).astype("<f4")
        made.points = corners.reshape(-1, 3).astype(float).tolist()
        made.names = [None] * count
        start = bytes(rng.choice([b"", b"solid", b"solid part"]))
        rows = b"".join(bytes(12) + corner.tobytes() + bytes(2) for corner in corners)
        made.data = (
            start.ljust(80, b" \0"[int(rng.integers(2)) :][:1]) + struct.pack("<I", count) + rows
        )
    else:
        plain = made.is_plain = bool(rng.random() < 0.5)
        lines = []
        for _ in range(1 if plain else int(rng.integers(1, 4))):
            name = str(rng.choice(["part", "Part 2", "facet normal", "", "solid"]))
            lines.append(f"solid {name}".strip())
            for _ in range(count):
                words = [[number(rng) for _ in range(3)] for _ in range(3)]
                made.points += [[float(word) for word in corner] for corner in words]
                made.names.append(name or None)
                lines += ["facet normal 0 0 1", "outer loop"]
                lines += [" ".join(["vertex", *corner]) for corner in words]
                lines += ["endloop", "endfacet"]
            lines.append(f"endsolid {name}".strip())
        if not plain and rng.random() < 0.3:
            lines = [line.upper() if line[:2] not in ("so", "ve") else line for line in lines]
        indent = "" if rng.random() < 0.5 else "  "
        end = "\r\n" if not plain and rng.random() < 0.3 else "\n"
        made.data = end.join([lines[0], *(indent + line for line in lines[1:]), ""]).encode()
    made.faces = np.arange(len(made.points)).reshape(-1, 3).tolist()
    return made


TYPES = {
    "char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f",
    "double": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i",
    "uint32": "I", "float32": "f", "float64": "d",
}  # fmt: skip


def ply(rng: Rng) -> Written:
    """Return a PLY file, of text or binary."""
    made = Written()
    order = str(rng.choice(["ascii", "binary_little_endian", "binary_big_endian"]))
    count = int(rng.integers(3, 12))

    def pick(kinds: str) -> str:
        return str(rng.choice([name for name, code in TYPES.items() if code in kinds]))

    floats, wholes = "fd", "bBhHiI"
    vertex: list[list[str]] = [[pick(floats), axis] for axis in "xyz"]
    extra = [[pick(floats + wholes), name] for name in ("nx", "red", "quality", "s")]
    if rng.random() < 0.3:
        rng.shuffle(vertex)
    vertex += [one for one in extra if rng.random() < 0.3]
    lists = [
        "list",
        pick(wholes),
        pick(wholes),
        str(rng.choice(["vertex_indices", "vertex_index"])),
    ]
    face: list[list[str]] = [lists]
    if rng.random() < 0.3:
        face.append(["list", pick("BHI"), pick(floats), "texcoord"])
    if rng.random() < 0.3:
        face.append([pick(wholes), "flags"])
    rng.shuffle(face)
    elements: list[tuple[str, list[list[str]], int]] = [("vertex", vertex, count)]
    elements.append(("face", face, int(rng.integers(1, 9))))
    if rng.random() < 0.3:
        elements.append(("edge", [[pick(wholes), "vertex1"], ["list", "uchar", "int", "of"]], 3))
    if rng.random() < 0.2:
        elements.insert(0, ("material", [[pick(floats + wholes), "ka"]], int(rng.integers(3))))
    if rng.random() < 0.1:
        rng.shuffle(elements)  # type: ignore[arg-type]
    sizes = [3] if rng.random() < 0.3 else [4] if rng.random() < 0.3 else [3, 4, 5]
    head = ["ply", f"format {order} 1.0", "comment made at random"]
    body = b""
    for name, properties, rows in elements:
        head.append(f"element {name} {rows}")
        head += [" ".join(["property", *words]) for words in properties]
        for _ in range(rows):
            polygon = rng.integers(0, count, rng.choice(sizes)).tolist()
            point = dict.fromkeys("xyz", 0.0)
            words_of_row: list[str] = []
            for words in properties:
                kind = words[-2]
                values: list[Any]
                if words[-1].startswith("vertex_ind"):
                    values = polygon
                elif words[0] == "list":
                    size = 2 * len(polygon) if words[-1] == "texcoord" else int(rng.integers(4))
                    values = [float(rng.integers(9)) if TYPES[kind] in floats else 1] * size
                elif TYPES[kind] in floats:
                    values = [
                        float(np.float32(rng.normal()) if TYPES[kind] == "f" else rng.normal())
                    ]
                else:
                    values = [int(rng.integers(100))]
                if words[-1] in point:
                    point[words[-1]] = values[0]
                if order == "ascii":
                    words_of_row += [str(len(values))] * (words[0] == "list") + [
                        repr(x) for x in values
                    ]
                else:
                    mark = "<" if "little" in order else ">"
                    if words[0] == "list":
                        body += struct.pack(mark + TYPES[words[1]], len(values))
                    body += struct.pack(f"{mark}{len(values)}{TYPES[kind]}", *values)
            if order == "ascii":
                body += " ".join(words_of_row).encode() + b"\n"
            if name == "vertex":
                made.points.append(list(point.values()))
            elif name == "face":
                made.faces.append(polygon)
    made.names = [None] * len(made.faces)
    end = "\r\n" if rng.random() < 0.2 else "\n"
    made.data = end.join([*head, "end_header", ""]).encode() + body
    return made


WRITERS = {".obj": obj, ".off": off, ".ply": ply, ".stl": stl}


def spoiled(data: bytes, rng: Rng) -> bytes:
    """Return a file with some damage."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1))
        size = int(rng.integers(1, 12))
        how = int(rng.integers(6))
        piece = bytes(
            rng.choice(
                [b"-1", b"0", b"\n", b" ", b"/", b"9", b"v", b"\0", b"nan", b"\\\n", b"#", b"."]
            )
        )
        if how == 0:
            data = data[:at] + data[at + size :]
        elif how == 1:
            data = data[:at] + piece + data[at:]
        elif how == 2:
            data = data[:at] + piece + data[at + len(piece) :]
        elif how == 3:
            data = data[:at] + rng.bytes(1) + data[at + 1 :]
        elif how == 4:
            data = data[:at] if rng.random() < 0.3 else data + data[at : at + size]
        else:
            lines = data.split(b"\n")
            i, j = rng.integers(0, len(lines), 2)
            lines[i], lines[j] = lines[j], lines[i]
            data = b"\n".join(lines)
    return data
