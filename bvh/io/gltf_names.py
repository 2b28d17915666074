"""Unique names of the nodes in glTF files.

trimesh calls an unnamed node by its number, whatever the name of its mesh. So names are written
into the file's JSON before trimesh reads it.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import IO, Any

ENDINGS = (".glb", ".gltf")

# Key in the metadata of a scene of trimesh: its nodes have final names.
NAMED = "bvh_named"

# The header of a GLB file, and that of its first chunk.
_HEADER = struct.Struct("<4sIIII")
_MAGIC, _JSON = b"glTF", 0x4E4F534A


def named(path: str) -> IO[bytes] | None:
    """Return a glTF file in which every node with a mesh has a unique name.

    A node without a name gets that of its mesh; repeated names get a number. None for other files,
    malformed ones, and those that need no other names.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        return None
    with open(path, "rb") as file:
        data = file.read()
    if ending == ".gltf":
        text, rest = data, b""
    else:
        if len(data) < _HEADER.size:
            return None
        magic, version, _, length, kind = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 2 or kind != _JSON:
            return None
        end = _HEADER.size + length
        text, rest = data[_HEADER.size : end], data[end:]
    try:
        content = json.loads(text)
        changed = _give_names(content)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        # The reader will report the error.
        return None
    if not changed:
        return None
    text = json.dumps(content).encode()
    if ending == ".gltf":
        return io.BytesIO(text)
    text += b" " * (-len(text) % 4)
    size = _HEADER.size + len(text) + len(rest)
    return io.BytesIO(_HEADER.pack(_MAGIC, 2, size, len(text), _JSON) + text + rest)


def _give_names(content: dict[str, Any]) -> bool:
    """Name the nodes; return whether any name has changed."""
    nodes, meshes = content.get("nodes", []), content.get("meshes", [])
    wanted = [node.get("name") or None for node in nodes]
    given = {name for name in wanted if name is not None}
    for k, node in enumerate(nodes):
        if wanted[k] is None and "mesh" in node:
            wanted[k] = meshes[node["mesh"]].get("name") or None
    names = numbered(wanted, given)
    before = [node.get("name") for node in nodes]
    for node, name in zip(nodes, names, strict=True):
        if name is not None:
            node["name"] = name
        else:
            node.pop("name", None)
    return before != names


def numbered(wanted: list[str | None], given: set[str]) -> list[str | None]:
    """Return unique names: repetitions get a number.

    Parameters
    ----------
    wanted : list of str or None
        None stays None.
    given : set of str
        Names in use, which no repetition gets.
    """
    used: set[str] = set()
    next_of: dict[str, int] = {}
    found: list[str | None] = []
    for name in wanted:
        if name is not None and name in used:
            k = next_of.get(name, 1)
            while f"{name}_{k}" in used or f"{name}_{k}" in given:
                k += 1
            next_of[name] = k + 1
            name = f"{name}_{k}"
        if name is not None:
            used.add(name)
        found.append(name)
    return found
