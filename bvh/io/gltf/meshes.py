"""Meshes of glTF files as plain triangles, for trimesh: fans, strips, morph targets, instances.

trimesh reads accessors as they are stored, without sparse values; it takes no fans, and no default
weights; and nodes with cameras, and those below them, are lost. So it is given each array that it
needs as a dense one of float32 or uint32, and nodes with nothing but a transform and a mesh.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.gltf.accessors import Accessors, Json, are_numbers, item, natural
from bvh.io.untrusted_files import Allowance
from bvh.runtime.arguments import number_of
from bvh.runtime.caller_warnings import warn_caller

INSTANCING = "EXT_mesh_gpu_instancing"

# Bytes of a node, with what trimesh makes of it.
NODE_SIZE = 1024

# Vertex attributes that are read in addition to positions.
ATTRIBUTES = {"NORMAL": ("VEC3",), "TEXCOORD_0": ("VEC2",), "COLOR_0": ("VEC3", "VEC4")}
# Numbers in each part of the transform of a node.
TRANSFORM = {"matrix": 16, "translation": 3, "rotation": 4, "scale": 3}

# The quaternion of no rotation, and the matrix.
UNIT = [0.0, 0.0, 0.0, 1.0]
EYE = np.eye(4).reshape(-1).tolist()
# How far from 1 the length of a quaternion may be, which may be made of bytes.
ROUGH = 0.1

TRIANGLES, STRIP, FAN = 4, 5, 6


def faces_of(corners: NDArray[np.uint32], mode: int) -> NDArray[np.uint32]:
    """Return the triangles (m, 3) that `corners`, vertex indices, make in a mode of glTF.

    The mode is TRIANGLES, STRIP or FAN (glTF 2.0, section 3.7.2.1).
    """
    if mode == TRIANGLES:
        return corners.reshape(-1, 3)
    faces = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    if mode == FAN:
        # The common corner, the first of all, comes last, as in the specification.
        faces[:, 0] = corners[0]
        return faces[:, [1, 2, 0]]
    # Every other triangle of a strip is reversed, so that all have the same winding.
    faces[1::2] = faces[1::2][:, [0, 2, 1]]
    return faces


class Meshes:
    """The meshes and nodes of a file, rewritten for trimesh as JSON.

    Accessor k and buffer k are the same new array, of `sizes[k]` bytes; buffers of images follow.
    `allowance` limits what is made.
    """

    def __init__(self, accessors: Accessors, allowance: Allowance) -> None:
        self._content, self._accessors, self._allowance = accessors.content, accessors, allowance
        self.sizes: list[int] = []  # the bytes of each new buffer
        self.accessors: list[Json] = []  # accessor k is all of buffer k
        self.meshes: list[Json] = []
        # Numbers of new accessors and meshes, by keys of what they were made of.
        self._added: dict[Any, int] = {}
        self._ignored: dict[str, list[str]] = {}  # elements, and where they are
        self._empty: list[str] = []  # nodes that hold no triangles

    def add_buffer(self, data: bytes | memoryview) -> int:
        """Add bytes as a buffer; return its number."""
        # No file can have this URI, as it has a zero byte.
        self._accessors.files.arrays[f"\0{len(self.sizes)}"] = data
        self.sizes.append(len(data))
        return len(self.sizes) - 1

    def _add(self, array: NDArray[Any]) -> int:
        """Add vectors (n, k) of float32 or indices of uint32; return the number of the accessor."""
        if array.dtype.kind == "f":
            record: Json = {"count": len(array), "type": f"VEC{array.shape[1]}"}
        else:
            record = {"count": array.size, "type": "SCALAR"}
        # The codes of float32 and uint32 in glTF.
        kind = {"f": 5126, "u": 5125}[array.dtype.kind]
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        record |= {"bufferView": self.add_buffer(data), "componentType": kind}
        self.accessors.append(record)
        return len(self.accessors) - 1

    def _values(self, name: str, number: object, is_target: bool) -> NDArray[Any]:
        """Return the values (n, k) of accessor `number`, for the attribute `name`.

        If `is_target`, they are a morph target of the attribute: positions without data are zeros.
        """
        if name == "POSITION":
            return self._accessors.positions(number, is_target)
        return self._accessors.floats(number, ATTRIBUTES[name])

    def _attribute(self, part: Json, name: str, weights: tuple[float, ...], vertices: int) -> int:
        """Add an attribute of a primitive, such as "POSITION"; return the number of its accessor.

        It is moved by the morph targets of the primitive, one for each of `weights`. It must have
        `vertices` elements; -1 allows any number.
        """
        number = part["attributes"][name]
        targets = zip(weights, part.get("targets", []), strict=False)
        moved = [(w, target[name]) for w, target in targets if w and name in target]
        key = (name, number, *moved)
        if key not in self._added:
            values = self._values(name, number, is_target=False)
            # Nodes may use the same accessors with different weights: each makes an array. Moving
            # it takes two doubles for each of its numbers.
            self._allowance.take(16 * values.size if moved else 0, "its morph targets")
            for weight, target in moved:
                step = self._values(name, target, is_target=True)
                if step.shape != values.shape:
                    sizes = f"{step.shape} numbers for {values.shape} of what it moves"
                    raise ValueError(f"accessor {target} has {sizes}")
                values = values + weight * step.astype(np.float64)
            self._added[key] = self._add(values.astype(np.float32))
        added = self._added[key]
        if vertices >= 0 and self.accessors[added]["count"] != vertices:
            got = f"{self.accessors[added]['count']} elements for {vertices} vertices"
            raise ValueError(f"accessor {number} ({name}) has {got}")
        return added

    def _primitive(self, part: Json, weights: tuple[float, ...], where: str) -> Json | None:
        """Return a primitive as JSON with plain triangles, moved by `weights`; None if it has none.

        `part` is its JSON in the file, and `where` names the mesh in errors.
        """
        mode = natural(part, "mode", TRIANGLES)
        if mode > FAN:
            raise ValueError(f"{where} has a primitive of an unknown mode, {mode}")
        if mode < TRIANGLES or "POSITION" not in part["attributes"]:
            return None
        place = self._attribute(part, "POSITION", weights, vertices=-1)
        vertices = self.accessors[place]["count"]
        given = {"POSITION": place}
        for name in ATTRIBUTES:
            if name in part["attributes"]:
                given[name] = self._attribute(part, name, weights, vertices)
        key = "faces", part.get("indices"), mode, vertices
        if key not in self._added:
            if "indices" in part:
                corners = self._accessors.indices(part["indices"], vertices)
            else:
                corners = np.arange(vertices, dtype=np.uint32)
            if mode == TRIANGLES and len(corners) % 3:
                raise ValueError(f"{where} has triangles with {len(corners)} corners together")
            if mode != TRIANGLES:
                # Nearly a triangle for each corner: three integers of 64 bits in trimesh.
                self._allowance.take(24 * len(corners), "its strips and fans")
            faces = faces_of(corners, mode) if len(corners) > 2 else corners[:0]
            self._added[key] = self._add(faces)
        indices = self._added[key]
        if self.accessors[indices]["count"] == 0:
            return None
        primitive = {"attributes": given, "indices": indices}
        if "material" in part:
            item(self._content, "materials", part["material"])
            primitive["material"] = part["material"]
        return primitive

    def _mesh(self, number: object, given: Any) -> int | None:
        """Add mesh `number` of the file; return its new number, or None if it has no triangles.

        `given` are a node's weights of morph targets, None for the weights that the mesh has.
        """
        mesh = item(self._content, "meshes", number)
        where = f"mesh {mesh.get('name', number)!r:.99}"
        chosen = mesh.get("weights", []) if given is None else given
        if not are_numbers(chosen):
            raise ValueError(f"{where} has weights that are not numbers: {chosen!r:.99}")
        weights = tuple(chosen) if any(chosen) else ()
        key = "mesh", number, weights
        if key not in self._added:
            for part in mesh["primitives"] if weights else ():
                if len(part.get("targets", [])) != len(weights):
                    targets = f"{len(weights)} weights for {len(part.get('targets', []))}"
                    raise ValueError(f"{where} has {targets} morph targets")
            parts = [self._primitive(part, weights, where) for part in mesh["primitives"]]
            if None in parts and any(parts):
                self._ignore("points, lines and parts without triangles are left out", where)
            record = {"name": str(mesh["name"])} if mesh.get("name") else {}
            self.meshes.append({**record, "primitives": [part for part in parts if part]})
            self._added[key] = len(self.meshes) - 1
        added = self._added[key]
        return added if self.meshes[added]["primitives"] else None

    def nodes(self) -> list[Json]:
        """Return the nodes, numbered as in the file, then instances, children of their nodes."""
        given = self._content.get("nodes", [])
        plain_nodes: list[Json] = []
        more: list[Json] = []
        for k, node in enumerate(given):
            plain = {key: node[key] for key in ("children", "name", *TRANSFORM) if key in node}
            for name, size in TRANSFORM.items():
                if name in plain and not (are_numbers(plain[name]) and len(plain[name]) == size):
                    got = f"got {plain[name]!r:.99}"
                    raise ValueError(f"{name} of node {k} must be {size} numbers, {got}")
            _check_rotation(plain.get("rotation", UNIT), f"node {k}")
            usual = {"translation": [0, 0, 0], "rotation": UNIT, "scale": [1, 1, 1], "matrix": EYE}
            changed = [name for name in TRANSFORM if plain.get(name, usual[name]) != usual[name]]
            if "matrix" in changed and len(changed) > 1:
                raise ValueError(f"node {k} has a matrix and also a {changed[1]}")
            # Columns come one after another: these are the last row.
            if "matrix" in plain and plain["matrix"][3::4] != [0, 0, 0, 1]:
                raise ValueError(f"matrix of node {k} must be affine, got {plain['matrix']}")
            for child in plain.get("children", []):
                item(self._content, "nodes", child)
            plain_nodes.append(plain)
            mesh = self._mesh(node["mesh"], node.get("weights")) if "mesh" in node else None
            if mesh is None:
                self._empty += [_label(node, k)] if "mesh" in node else []
                continue
            if "skin" in node:
                self._ignore("skins are ignored: vertices are as stored", f"node {_label(node, k)}")
            instances = node.get("extensions", {}).get(INSTANCING)
            if instances is None:
                plain["mesh"] = mesh
                continue
            placed = self._instances(instances["attributes"], f"node {_label(node, k)}")
            first = len(given) + len(more)
            plain["children"] = [*plain.get("children", []), *range(first, first + len(placed))]
            name = plain.pop("name", None) or self.meshes[mesh].get("name") or str(k)
            more += [{"name": name, "mesh": mesh, **transform} for transform in placed]
        return plain_nodes + more

    def _instances(self, given: Json, where: str) -> list[Json]:
        """Return the transform of each instance of a node as JSON: translation, rotation, scale.

        `given` has the accessors of these attributes, and `where` names the node in errors.
        """
        columns: dict[str, list[Any]] = {}
        for name in TRANSFORM:
            if name.upper() in given:
                kind = f"VEC{TRANSFORM[name]}"
                values = self._accessors.floats(given[name.upper()], (kind,))
                self._allowance.take(NODE_SIZE * len(values), f"the instances of {where}")
                columns[name] = values.tolist()
                if not np.isfinite(values).all():
                    raise ValueError(f"{where} has instances with a {name} that is not finite")
        if len({len(rows) for rows in columns.values()}) != 1:
            raise ValueError(f"{where} has instances of no count, or of several counts")
        for turn in columns.get("rotation", []):
            _check_rotation(turn, where)
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _ignore(self, what: str, where: str) -> None:
        """Note that something is ignored at a place; `warn` warns of it once."""
        self._ignored.setdefault(what, []).append(where)

    def warn(self) -> None:
        """Warn of nodes without triangles and of ignored elements, one warning for each kind."""
        if self._empty:
            more = len(self._empty) - 1
            others = f", and {number_of(more, 'nodes more')}" if more else ""
            warn_caller(f"node {self._empty[0]} is left out: it holds no triangles{others}")
        for what, places in self._ignored.items():
            more = len(places) - 1
            others = f" and {number_of(more, 'places more')}" if more else ""
            warn_caller(f"{what}, in {places[0]}{others} of the glTF file")


def _check_rotation(turn: list[float], where: str) -> None:
    """Raise unless a quaternion, `turn`, is about 1 long: readers differ on others."""
    # "not <", so that NaN is refused.
    if not abs(math.hypot(*turn) - 1.0) < ROUGH:
        raise ValueError(f"{where} has a rotation that is not a unit quaternion: {turn}")


def _label(node: Json, k: int) -> str:
    """Return the name of node k, or its number if it has none."""
    return f"{node.get('name') or k!r:.99}"
