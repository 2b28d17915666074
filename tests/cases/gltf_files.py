"""glTF files made by hand, and random ones of all that the format can hold."""

from __future__ import annotations

import base64
import copy
import json
import struct
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

Rng = np.random.Generator
TYPES = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
ONES = {"i1": 127, "u1": 255, "i2": 32767, "u2": 65535}
INSTANCING = "EXT_mesh_gpu_instancing"
# A unit square at z = 0.
SQUARE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], "f4")
SQUARE_FACES = np.array([0, 1, 2, 1, 3, 2], "u2")


class GltfFile:
    """The JSON of a file and its only buffer, to which methods add."""

    def __init__(self, **extra: Any) -> None:
        self.data = b""
        self.json: dict[str, Any] = {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": []}], "nodes": [],
            "meshes": [], "accessors": [], "bufferViews": [], **extra,
        }  # fmt: skip

    def _added(self, kind: str, one: dict[str, Any]) -> int:
        self.json.setdefault(kind, []).append(one)
        return len(self.json[kind]) - 1

    def view(self, raw: bytes, **more: Any) -> int:
        """Add a bufferView."""
        self.data += b"\0" * (-len(self.data) % 4)
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(raw), **more}
        self.data += raw
        return self._added("bufferViews", view)

    def accessor(
        self, values: Any, *, stride: int = 0, before: int = 0, dense: bool = True,
        bounds: bool = False, rows: Any = None, index: str = "u2", **more: Any,
    ) -> int:  # fmt: skip
        """Add an accessor; `rows` of it are sparse, and without `dense` the others are zeros."""
        array = np.asarray(values)
        array = array.reshape(len(array), -1)
        lanes = array.shape[1]
        told: dict[str, Any] = {
            "componentType": TYPES[array.dtype.str[1:]], "count": len(array),
            "type": "SCALAR" if lanes == 1 else f"VEC{lanes}", **more,
        }  # fmt: skip
        if dense:
            stored = array.copy()
            if rows is not None:
                stored[rows] = 1
            pieces = [row.tobytes().ljust(stride, b"\xff") for row in stored]
            step = {"byteStride": stride} if stride else {}
            told["bufferView"] = self.view(b"\xff" * before + b"".join(pieces), **step)
            told |= {"byteOffset": before} if before else {}
        if rows is not None:
            where = self.view(np.asarray(rows, index).tobytes())
            # VTK wants the offsets that may be left out.
            places = {"bufferView": where, "byteOffset": 0, "componentType": TYPES[index]}
            values_at = {"bufferView": self.view(array[rows].tobytes()), "byteOffset": 0}
            told["sparse"] = {"count": len(rows), "indices": places, "values": values_at}
        if bounds:
            told |= {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
        return self._added("accessors", told)

    def mesh(self, *parts: dict[str, Any], **more: Any) -> int:
        """Add a mesh; without parts, the square."""
        return self._added("meshes", {"primitives": list(parts or (self.square(),)), **more})

    def square(self, **more: Any) -> dict[str, Any]:
        """Return a primitive of the square."""
        place = self.accessor(SQUARE, bounds=True)
        return {"attributes": {"POSITION": place}, "indices": self.accessor(SQUARE_FACES), **more}

    def node(self, root: bool = True, **told: Any) -> int:
        """Add a node."""
        number = self._added("nodes", told)
        if root:
            self.json["scenes"][0]["nodes"].append(number)
        return number

    def save(self, path: Path, how: str = "") -> Path:
        """Write the file: GLB, or with a buffer in a file named `how`, or in its own text."""
        data = self.data + b"\0" * (-len(self.data) % 4)
        buffer: dict[str, Any] = {"byteLength": len(data)}
        if path.suffix == ".glb":
            text = json.dumps(self.json | {"buffers": [buffer]}).encode()
            text += b" " * (-len(text) % 4)
            size = 28 + len(text) + len(data)
            start = struct.pack("<4sIIII", b"glTF", 2, size, len(text), 0x4E4F534A)
            path.write_bytes(start + text + struct.pack("<II", len(data), 0x004E4942) + data)
            return path
        if how:
            (path.parent / how).write_bytes(data)
            buffer["uri"] = quote(how)
        else:
            code = base64.b64encode(data).decode()
            buffer["uri"] = f"data:application/octet-stream;base64,{code}"
        path.write_text(json.dumps(self.json | {"buffers": [buffer]}))
        return path


def _numbers(rng: Rng, kind: str, normalized: bool, shape: tuple[int, int], signed: bool) -> Any:
    """Return random components of a type, within -1 and 1 or 0 and 1 if they are normalized."""
    if kind == "f4":
        return rng.uniform(-1.0 if signed else 0.0, 1.0, shape).astype("f4")
    top = ONES[kind] if normalized else 100
    low = (-top - (normalized and rng.random() < 0.5)) if kind[0] == "i" and signed else 0
    return rng.integers(low, top + 1, shape).astype(kind)


def random_accessor(
    file: GltfFile, rng: Rng, count: int, lanes: int, kinds: str, **more: Any
) -> int:
    """Add an accessor of one of some component types, stored in one of all ways."""
    kind = str(rng.choice(kinds.split()))
    normalized = kind != "f4" and bool(rng.random() < 0.6 or more.pop("normalized", False))
    more.pop("normalized", None)
    values = _numbers(rng, kind, normalized, (count, lanes), more.pop("signed", True))
    size = lanes * np.dtype(kind).itemsize
    stride = int(rng.choice([0, size + -size % 4, size + -size % 4 + 8]))
    rows = None
    if rng.random() < 0.3:
        rows = np.sort(rng.choice(count, rng.integers(1, count + 1), replace=False))
    dense = rows is None or bool(rng.random() < 0.6)
    if not dense:
        values[np.setdiff1d(np.arange(count), rows)] = 0
    told: dict[str, Any] = {"normalized": True} if normalized else {}
    return file.accessor(
        values, stride=stride, before=4 * int(rng.integers(3)), dense=dense, rows=rows,
        index=str(rng.choice(["u1", "u2", "u4"])), **told, **more,
    )  # fmt: skip


def random_primitive(file: GltfFile, rng: Rng, targets: int) -> dict[str, Any]:
    """Return a primitive with random attributes, morph targets, mode and indices."""
    count, mode = int(rng.integers(3, 12)), int(rng.choice([0, 1, 3, 4, 4, 4, 5, 6]))
    place = random_accessor(file, rng, count, 3, "f4 f4 f4 i1 u1 i2 u2", bounds=True)
    part: dict[str, Any] = {"attributes": {"POSITION": place}, "mode": mode}
    if mode == 4 and rng.random() < 0.5:
        del part["mode"]
    if rng.random() < 0.4:
        normals = random_accessor(file, rng, count, 3, "f4 i1 i2", normalized=True)
        part["attributes"]["NORMAL"] = normals
    if rng.random() < 0.4:
        uv = random_accessor(file, rng, count, 2, "f4 u1 u2 i1 i2")
        part["attributes"]["TEXCOORD_0"] = uv
        part["material"] = 0
    if rng.random() < 0.3:
        kinds, lanes = "f4 u1 u2", int(rng.integers(3, 5))
        colours = random_accessor(file, rng, count, lanes, kinds, normalized=True, signed=False)
        part["attributes"]["COLOR_0"] = colours
    if targets:
        part["targets"] = [
            {"POSITION": random_accessor(file, rng, count, 3, "f4 i1 i2", bounds=True)}
            for _ in range(targets)
        ]
    if rng.random() < 0.6 or (mode == 4 and count % 3):
        kind = str(rng.choice(["u1", "u2", "u4"]))
        length = 3 * int(rng.integers(1, 6)) if mode == 4 else int(rng.integers(3, 9))
        corners, rows = rng.integers(0, count, length).astype(kind), None
        if rng.random() < 0.2:
            rows = np.sort(rng.choice(length, rng.integers(1, length + 1), replace=False))
        part["indices"] = file.accessor(corners, rows=rows)
    return part


def random_transform(rng: Rng) -> dict[str, Any]:
    """Return the transform of a node, which may reflect."""
    if rng.random() < 0.3:
        return {}
    if rng.random() < 0.3:
        matrix = np.eye(4)
        matrix[:3] = rng.normal(size=(3, 4))
        return {"matrix": matrix.T.reshape(-1).tolist()}
    turn = rng.normal(size=4)
    found = {
        "translation": rng.normal(size=3).tolist(),
        "rotation": (turn / np.linalg.norm(turn)).tolist(),
        "scale": (rng.uniform(0.5, 2.0, 3) * rng.choice([-1.0, 1.0], 3)).tolist(),
    }
    return {name: value for name, value in found.items() if rng.random() < 0.7}


def random_file(rng: Rng) -> GltfFile:
    """Return a valid file."""
    used = ["KHR_mesh_quantization", INSTANCING]
    file = GltfFile(extensionsUsed=used, extensionsRequired=used, materials=[{}])
    file.json["cameras"] = [{"type": "orthographic"}]
    targets = []
    for k in range(int(rng.integers(1, 3))):
        targets.append(int(rng.choice([0, 0, 0, 1, 2])))
        parts = [random_primitive(file, rng, targets[-1]) for _ in range(rng.integers(1, 3))]
        named = {"name": f"mesh{'ABC'[k]}"} if rng.random() < 0.7 else {}
        weights = {"weights": rng.normal(size=targets[-1]).tolist()} if rng.random() < 0.5 else {}
        file.mesh(*parts, **named, **(weights if targets[-1] else {}))
    for k in range(int(rng.integers(1, 6))):
        told = random_transform(rng)
        if rng.random() < 0.7:
            told["mesh"] = int(rng.integers(len(targets)))
            size = targets[told["mesh"]]
            if size and rng.random() < 0.3:
                told["weights"] = rng.normal(size=size).tolist()
            if rng.random() < 0.2:
                told["extensions"] = {INSTANCING: {"attributes": random_instances(file, rng)}}
        if rng.random() < 0.5:
            told["name"] = f"node{'äbcdef'[k]}"
        if rng.random() < 0.1:
            told["camera"] = 0
        parent = int(rng.integers(-1, k)) if k else -1
        file.node(parent < 0, **told)
        if parent >= 0:
            file.json["nodes"][parent].setdefault("children", []).append(k)
    return file


def random_instances(file: GltfFile, rng: Rng) -> dict[str, int]:
    """Return the attributes of instances of a node."""
    count = int(rng.integers(1, 4))
    turns = rng.normal(size=(count, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    found = {"TRANSLATION": file.accessor(rng.normal(size=(count, 3)).astype("f4"))}
    if rng.random() < 0.5:
        packed = bool(rng.random() < 0.5)
        values = (turns * 32767).round().astype("i2") if packed else turns.astype("f4")
        found["ROTATION"] = file.accessor(values, **({"normalized": True} if packed else {}))
    if rng.random() < 0.5:
        scales = rng.uniform(0.5, 2.0, (count, 3)) * rng.choice([-1.0, 1.0], (count, 3))
        found["SCALE"] = file.accessor(scales.astype("f4"))
    return found


SPOILS: list[Any] = [
    0, 1, -1, 2, 3, 7, 255, 10**9, 2**40, 0.5, 1e-9, None, "x", "", True, [], {}, [0], 5120, 5121,
    5122, 5123, 5125, 5126, "SCALAR", "VEC2", "VEC3", "VEC4", "MAT4",
]  # fmt: skip


def spoiled(data: bytes, rng: Rng, binary: bool) -> bytes:
    """Return a file after some changes of its JSON, or of its bytes."""
    if rng.random() < 0.2:
        raw = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            raw[rng.integers(len(raw))] = rng.integers(256)
        return bytes(raw[: rng.integers(len(raw))] if rng.random() < 0.3 else raw)
    size = struct.unpack_from("<I", data, 12)[0] if binary else len(data)
    start = 20 if binary else 0
    content = json.loads(data[start : start + size])
    for _ in range(rng.integers(1, 3)):
        spoil(content, rng)
    text = json.dumps(content).encode()
    if not binary:
        return text
    text += b" " * (-len(text) % 4)
    return data[:12] + struct.pack("<I", len(text)) + data[16:20] + text + data[20 + size :]


def spoil(content: Any, rng: Rng) -> None:
    """Change, remove or repeat something deep in JSON."""
    places = []
    open_parts = [content]
    while open_parts:
        part = open_parts.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            places.append((part, key))
            if isinstance(part[key], dict | list):
                open_parts.append(part[key])
    part, key = places[rng.integers(len(places))]
    chance = rng.random()
    if chance < 0.2:
        del part[key]
    elif chance < 0.4:
        part[key] = copy.deepcopy(places[rng.integers(len(places))][0])
    elif chance < 0.5 and isinstance(part[key], int | float):
        part[key] += int(rng.integers(-4, 5))
    else:
        part[key] = SPOILS[rng.integers(len(SPOILS))]
