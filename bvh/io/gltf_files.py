"""JSON of glTF files: checked and given names before trimesh reads them.

trimesh calls an unnamed node by its number, whatever the name of its mesh; it fills accessors
without data with zeros; and it finds the transform of a node by walking up to the root.
"""

import contextlib
import json
import struct
from typing import Any

from bvh.io.untrusted_files import Allowance

ENDINGS = (".glb", ".gltf")

# Key in the metadata of a scene of trimesh: its nodes have final names.
NAMED = "bvh_named"

# The header of a GLB file, and that of its first chunk.
_HEADER = struct.Struct("<4sIIII")
_MAGIC, _JSON = b"glTF", 0x4E4F534A

# Bytes of a component, by its number, and components of an element; readers refuse unknown ones.
_BYTES = {5120: 1, 5121: 1, 5122: 2, 5123: 2, 5125: 4, 5126: 4}
_LANES = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
# Edges from the root to nodes, walked one by one: some seconds, and what any scene needs.
_STEPS, _MEAN_DEPTH = 1 << 19, 64


def checked(data: bytes, binary: bool, allowance: Allowance) -> bytes:
    """Return a glTF file, checked; nodes with a mesh get unique names, unnamed ones the mesh's."""
    text, end = data, len(data)
    if binary:
        if len(data) < _HEADER.size:
            raise ValueError(f"it is cut off: it has {len(data)} bytes")
        magic, version, _, length, kind = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 2 or kind != _JSON:
            raise ValueError("it does not begin as GLB 2 does")
        end = _HEADER.size + length
        text = data[_HEADER.size : end]
    # UTF-8, but some exporters begin it with a mark, or write UTF-16.
    encoding = json.detect_encoding(text)
    try:
        content, is_plain = json.loads(text.decode(encoding)), encoding == "utf-8"
    except UnicodeDecodeError:
        # As some exporters write names. The reader, which guesses, gets what has been checked.
        content, is_plain = json.loads(text.decode("latin-1")), False
    malformed = TypeError, AttributeError, LookupError
    try:
        _check_arrays(content, allowance)
        _check_depth(content)
    except malformed as error:
        raise ValueError(f"its JSON is not that of glTF: {error!r}") from None
    changed = False
    # The reader will report the error.
    with contextlib.suppress(*malformed):
        changed = _give_names(content)
    if is_plain and not changed:
        return data
    text = json.dumps(content).encode()
    if not binary:
        return text
    text += b" " * (-len(text) % 4)
    size = _HEADER.size + len(text) + len(data) - end
    return _HEADER.pack(_MAGIC, 2, size, len(text), _JSON) + text + data[end:]


def _check_arrays(content: dict[str, Any], allowance: Allowance) -> None:
    """Check what buffer views, accessors and meshes take, which may share the same few bytes."""
    for view in content.get("bufferViews", []):
        _natural(view, "byteOffset", 0)
        _natural(view, "byteStride", 1, least=1)
        allowance.take(_natural(view, "byteLength"), "its bufferViews")
    counts = []
    for accessor in content.get("accessors", []):
        _natural(accessor, "byteOffset", 0)
        counts.append(_LANES.get(accessor["type"], 16) * _natural(accessor, "count"))
        size = counts[-1] * _BYTES.get(accessor["componentType"], 4)
        allowance.take(size, f"accessor {len(counts) - 1}")
    for mesh in content.get("meshes", []):
        for part in mesh.get("primitives", []):
            used = [*part.get("attributes", {}).values()]
            # Without indices each vertex is one.
            used.append(part.get("indices", used[0] if used else -1))
            known = (counts[k] for k in used if isinstance(k, int) and 0 <= k < len(counts))
            # As doubles and 64-bit integers.
            allowance.take(8 * sum(known), "its meshes")


def _natural(owner: dict[str, Any], name: str, usual: int | None = None, least: int = 0) -> int:
    """Return an integer that is not below the least."""
    value = owner.get(name, usual)
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer from {least} up, got {value!r:.99}")
    return value


def _check_depth(content: dict[str, Any]) -> None:
    """Check that the way from all nodes to the root is not too long, or without end."""
    nodes, scenes = content.get("nodes", []), content.get("scenes", [])
    parents = dict.fromkeys(range(len(nodes)), -1)
    # As trimesh walks: the parent that comes last counts.
    roots = scenes[content.get("scene", 0)].get("nodes", []) if scenes else []
    edges, seen = [(-1, node) for node in roots], set[tuple[int, int]]()
    walked, most = 0, _STEPS + _MEAN_DEPTH * len(nodes)
    while edges:
        edge = edges.pop()
        if edge not in seen:
            seen.add(edge)
            above, node = edge
            parents[node] = above
            children = nodes[node].get("children", [])
            # Again for each parent of the node.
            walked += len(children)
            if walked > most:
                raise ValueError(f"its nodes are children of too many: over {most} steps")
            edges += [(node, child) for child in children]
    depths = {-1: 0}
    steps = 0
    for node in parents:
        way = []
        while node not in depths:
            way.append(node)
            depths[node] = -1
            node = parents[node]
        if depths[node] < 0:
            raise ValueError(f"node {node} is below itself")
        for k, below in enumerate(reversed(way), depths[node] + 1):
            depths[below] = k
            steps += k
    if steps > most:
        raise ValueError(f"its nodes are {steps} steps below the root together, over {most}")


def _give_names(content: dict[str, Any]) -> bool:
    """Name the nodes; return whether any name has changed."""
    nodes, meshes = content.get("nodes", []), content.get("meshes", [])
    given = {node["name"] for node in nodes if node.get("name")}
    owners = (meshes[n["mesh"]] if "mesh" in n and not n.get("name") else n for n in nodes)
    wanted = [owner.get("name") or None for owner in owners]
    before = [node.pop("name", None) for node in nodes]
    names = numbered(wanted, given)
    for node, name in zip(nodes, names, strict=True):
        if name is not None:
            node["name"] = name
    return before != names


def numbered(wanted: list[str | None], given: set[str]) -> list[str | None]:
    """Return unique names: repetitions get a number that makes no name in use; None stays."""
    used: set[str | None] = set()
    next_of: dict[str, int] = {}
    found: list[str | None] = []
    for name in wanted:
        if name is not None and name in used:
            k = next_of.get(name, 1)
            while f"{name}_{k}" in used or f"{name}_{k}" in given:
                k += 1
            next_of[name] = k + 1
            name = f"{name}_{k}"
        used.add(name)
        found.append(name)
    return found
