"""The names of nodes in files of glTF: those that the file gives, each once.

trimesh takes an unnamed node for its number, whatever its mesh is called. So names are written
into the file's description before trimesh reads it.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import IO, Any

ENDINGS = (".glb", ".gltf")

# In the metadata of a scene of trimesh: nodes have the names that are meant.
NAMED = "bvh_named"

# The header of a GLB file, and that of its first chunk.
_HEADER = struct.Struct("<4sIIII")
_MAGIC, _JSON = b"glTF", 0x4E4F534A


def named(path: str) -> IO[bytes] | None:
    """Return a file of glTF in which every node with a mesh has a name of its own.

    A node without a name takes that of its mesh; what comes again gets a number. None for what is
    no glTF, or not as it should be, and for files that need no other names.
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        return None
    with open(path, "rb") as file:
        content = file.read()
    if ending == ".gltf":
        text, rest = content, b""
    else:
        if len(content) < _HEADER.size:
            return None
        magic, version, _, length, kind = _HEADER.unpack_from(content)
        if magic != _MAGIC or version != 2 or kind != _JSON:
            return None
        end = _HEADER.size + length
        text, rest = content[_HEADER.size : end], content[end:]
    try:
        told = json.loads(text)
        changed = _give_names(told)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        # The reader will tell what is wrong.
        return None
    if not changed:
        return None
    text = json.dumps(told).encode()
    if ending == ".gltf":
        return io.BytesIO(text)
    text += b" " * (-len(text) % 4)
    size = _HEADER.size + len(text) + len(rest)
    return io.BytesIO(_HEADER.pack(_MAGIC, 2, size, len(text), _JSON) + text + rest)


def _give_names(told: dict[str, Any]) -> bool:
    """Give nodes their names; tell whether any is another than before."""
    nodes, meshes = told.get("nodes", []), told.get("meshes", [])
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
    """Return names that are each there once: the second and later ones get a number.

    Parameters
    ----------
    wanted : list of str or None
        What has None stays without.
    given : set of str
        Names that are not to be made up, because somebody has them.
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
