"""A second reader of glTF 2.0: number by number, as the specification says it, and slowly."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pytest

import bvh

# Codes of struct, and what 1 is of normalized integers, by component type.
CODES = {5120: "b", 5121: "B", 5122: "h", 5123: "H", 5125: "I", 5126: "f"}
ONES = {5120: 127, 5121: 255, 5122: 32767, 5123: 65535}
# Elements of an accessor, and parts, that random files never have.
MOST = 1000
LANES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


class Part(NamedTuple):
    """Triangles of one primitive, placed by one node."""

    label: str
    matrix: np.ndarray
    vertices: np.ndarray
    faces: np.ndarray
    uv: np.ndarray | None
    normals: np.ndarray | None


class Reader:
    """Reads one file."""

    def __init__(self, path: Path) -> None:
        data, self.chunk = path.read_bytes(), b""
        self.folder, text = path.parent, data
        if data[:4] == b"glTF":
            length = struct.unpack_from("<I", data, 12)[0]
            text, rest = data[20 : 20 + length], data[20 + length :]
            if rest:
                self.chunk = rest[8 : 8 + struct.unpack_from("<I", rest)[0]]
        self.json: dict[str, Any] = json.loads(text)

    def bytes_of(self, number: int) -> bytes:
        """Return the bytes of a bufferView."""
        view = self.json["bufferViews"][number]
        buffer = self.json["buffers"][view["buffer"]]
        uri = buffer.get("uri")
        if uri is None:
            data = self.chunk
        elif uri.startswith("data:"):
            data = base64.b64decode(uri.partition(",")[2])
        else:
            data = (self.folder / unquote(uri)).read_bytes()
        begin = view.get("byteOffset", 0)
        return data[begin : begin + view["byteLength"]]

    def stored(self, owner: dict[str, Any], kind: int, lanes: int, count: int) -> list[list[Any]]:
        """Return the elements that a bufferView holds."""
        data, size = self.bytes_of(owner["bufferView"]), struct.calcsize(CODES[kind])
        stride = self.json["bufferViews"][owner["bufferView"]].get("byteStride", lanes * size)
        found = []
        for k in range(count):
            at = owner.get("byteOffset", 0) + k * stride
            found.append(list(struct.unpack_from(f"<{lanes}{CODES[kind]}", data, at)))
        return found

    def elements(self, number: int) -> list[list[float]]:
        """Return the elements of an accessor."""
        accessor = self.json["accessors"][number]
        kind, lanes, count = accessor["componentType"], LANES[accessor["type"]], accessor["count"]
        if count > MOST:
            raise ValueError(f"{count} elements are too many for this reader")
        found = [[0] * lanes for _ in range(count)]
        if "bufferView" in accessor:
            found = self.stored(accessor, kind, lanes, count)
        sparse = accessor.get("sparse")
        if sparse:
            few, where = sparse["count"], sparse["indices"]
            rows = self.stored(where, where["componentType"], 1, few)
            values = self.stored(sparse["values"], kind, lanes, few)
            for (row,), value in zip(rows, values, strict=True):
                found[row] = value
        if accessor.get("normalized"):
            found = [[max(x / ONES[kind], -1.0) for x in element] for element in found]
        return found

    def moved(self, part: dict[str, Any], name: str, weights: list[float]) -> np.ndarray:
        """Return an attribute of a primitive under the weights of its morph targets."""
        found = np.array(self.elements(part["attributes"][name]), np.float32).astype(np.float64)
        for weight, target in zip(weights, part.get("targets", []), strict=False):
            if name in target and weight:
                step = np.array(self.elements(target[name]), np.float32)
                found = found + weight * step.astype(np.float64)
        return found.astype(np.float32).astype(np.float64)

    def faces(self, part: dict[str, Any], vertices: int) -> list[tuple[int, int, int]]:
        """Return the triangles of a primitive."""
        v: list[Any] = list(range(vertices))
        if "indices" in part:
            v = [element[0] for element in self.elements(part["indices"])]
        mode = part.get("mode", 4)
        if mode == 4:
            return [(v[i], v[i + 1], v[i + 2]) for i in range(0, len(v), 3)]
        if mode == 5:
            every = range(len(v) - 2)
            return [(v[i], v[i + 1 + i % 2], v[i + 2 - i % 2]) for i in every]
        return [(v[i + 1], v[i + 2], v[0]) for i in range(len(v) - 2)]

    def place(self, node: dict[str, Any]) -> np.ndarray:
        """Return the matrix of a node."""
        if "matrix" in node:
            return np.array(node["matrix"], np.float64).reshape(4, 4).T
        return matrix_of(*(node.get(name) for name in ("translation", "rotation", "scale")))

    def parts(self) -> list[Part]:
        """Return all that the scene shows."""
        content = self.json
        found: list[Part] = []
        open_nodes = [
            (k, np.eye(4), 0) for k in content["scenes"][content.get("scene", 0)]["nodes"]
        ]
        while open_nodes:
            number, above, depth = open_nodes.pop()
            if depth > 9:
                raise ValueError("nodes are below themselves")
            node = content["nodes"][number]
            here = above @ self.place(node)
            open_nodes += [(k, here, depth + 1) for k in node.get("children", [])]
            if "mesh" not in node:
                continue
            mesh = content["meshes"][node["mesh"]]
            label = str(node.get("name") or mesh.get("name") or number)
            weights = node.get("weights", mesh.get("weights", []))
            given = node.get("extensions", {}).get("EXT_mesh_gpu_instancing")
            maps = [np.eye(4)] if given is None else self.instances(given["attributes"])
            for part in mesh["primitives"]:
                if part.get("mode", 4) < 4 or "POSITION" not in part["attributes"]:
                    continue
                points = self.moved(part, "POSITION", weights)
                faces = np.array(self.faces(part, len(points)), np.int64).reshape(-1, 3)
                known = part["attributes"]
                # Nobody needs texture coordinates without a material.
                has_uv = "TEXCOORD_0" in known and "material" in part
                uv = self.moved(part, "TEXCOORD_0", weights) if has_uv else None
                normals = self.moved(part, "NORMAL", weights) if "NORMAL" in known else None
                for one in maps:
                    whole = here @ one
                    turned = faces[:, ::-1] if np.linalg.det(whole[:3, :3]) < 0.0 else faces
                    if len(faces):
                        found.append(Part(label, whole, points, turned, uv, normals))
        return found

    def instances(self, given: dict[str, int]) -> list[np.ndarray]:
        """Return the matrices of the instances of a node."""
        columns: list[Any] = [
            np.float64(np.float32(self.elements(given[name]))) if name in given else None
            for name in ("TRANSLATION", "ROTATION", "SCALE")
        ]
        count = max(len(column) for column in columns if column is not None)
        rows = ([None if c is None else c[k] for c in columns] for k in range(count))
        return [matrix_of(*row) for row in rows]


def matrix_of(shift: Any, turn: Any, scale: Any) -> np.ndarray:
    """Return the matrix of a translation, a rotation and a scale, each of which may be None."""
    x, y, z, w = (0.0, 0.0, 0.0, 1.0) if turn is None else np.array(turn) / np.linalg.norm(turn)
    found = np.eye(4)
    found[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    found[:3, :3] *= np.array((1.0, 1.0, 1.0) if scale is None else scale)
    found[:3, 3] = (0.0, 0.0, 0.0) if shift is None else shift
    return found


def assert_read(path: Path) -> None:
    """Compare what is read of a file, both ways, with what the slow reader finds."""
    wanted = Reader(path).parts()
    if not wanted:
        with pytest.raises(ValueError, match="holds no triangles"):
            bvh.load_scene(path)
        return
    scene, tree = bvh.load_scene(path), bvh.BVH.from_file(path)
    labels = {part.label for part in wanted}
    left = list(wanted)
    for one in scene:
        name = str(one.name)
        # Names that come again are numbered, those of parts of a mesh once more.
        base = name
        while base not in labels and base[-1].isdigit() and "_" in base:
            base = base.rpartition("_")[0]
        same = [k for k, part in enumerate(left) if part.label == base and _same(part, one, scene)]
        assert same, f"{path}: {name} is not in the file"
        del left[same[0]]
    assert not left, f"{path}: {left[0].label} is missing"
    vertices, faces = scene.flattened()[:2]
    assert np.array_equal(tree.vertices, vertices, equal_nan=True)
    assert np.array_equal(tree.faces, faces)


def _same(part: Part, one: Any, scene: bvh.Scene) -> bool:
    """Return whether an instance is a part, with its attributes."""
    known = scene.attributes(one.child)
    same = np.array_equal(one.child.vertices, part.vertices, equal_nan=True)
    # The sign of a determinant that rounding alone keeps from 0 means nothing.
    linear = part.matrix[:3, :3]
    is_flat = abs(np.linalg.det(linear)) <= 1e-12 * np.abs(linear).max() ** 3
    ways = (part.faces, part.faces[:, ::-1]) if is_flat else (part.faces,)
    if not (same and any(np.array_equal(one.child.faces, faces) for faces in ways)):
        return False
    largest = 1e-12 * np.abs(part.matrix).max()
    same = np.allclose(one.transform, part.matrix, rtol=1e-12, atol=largest)
    if part.normals is not None:
        same &= np.array_equal(known.vertex_normals, part.normals, equal_nan=True)
    if part.uv is not None:
        flipped = part.uv * [1.0, -1.0] + [0.0, 1.0]
        same &= np.allclose(known.uv, flipped, rtol=1e-6, atol=1e-6, equal_nan=True)
    return bool(same)
