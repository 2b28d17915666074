"""Frozen writer of saved files, as 0.2.0 wrote them, and of indexes of parts.

It must never be adapted to the code.

Files in users' hands have this layout, byte for byte. Those of trees of triangles are refused, all
others have to be readable for ever. Only what is read of a tree follows the code.
"""

from __future__ import annotations

import json
import struct
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bvh import BVH

Table = tuple[str, str, Any]


def file_of(fields: bytes, tables: list[Table], behind: bytes = b"") -> bytes:
    """Return a header with a table of arrays, the arrays, and what follows them."""
    header, body, offset = fields, b"", 1024
    for name, dtype, values in tables:
        array = np.ascontiguousarray(values, dtype)
        data = array.tobytes()
        sums = [zlib.crc32(data[i : i + 2**20]) for i in range(0, len(data), 2**20)]
        digest = blake2b(struct.pack(f"<{len(sums)}I", *sums), digest_size=16).digest()
        columns = array.shape[1] if array.ndim == 2 else 0
        header += struct.pack("<16s8s", name.encode(), dtype.encode())
        header += struct.pack("<4Q", len(array), columns, offset, len(data)) + digest
        data += bytes(-len(data) % 64)
        body, offset = body + data, offset + len(data)
    header = header.ljust(1008, b"\0")
    return header + blake2b(header, digest_size=16).digest() + body + behind


def saved_tree(tree: BVH, width: int) -> bytes:
    """Return the file of a tree."""
    (blocks, _), groups, primitives, frame, _ = tree.arrays
    ids = tree.arrays.nodes.ids
    kind = ("triangles", "boxes", "obbs").index(tree.kind)
    version = 3 if kind == 0 else 1
    groups = groups.reshape(-1, 12, width)[:, :11].ravel()
    tables: list[Table] = [
        ("frame", "<f8", frame), ("blocks", "<f4", blocks), ("ids", "<i4", ids),
        ("groups", "<f4", groups), ("points", "<f8", primitives[0]),
    ]  # fmt: skip
    if kind == 0:
        tables.append(("faces", "<i4", tree.faces))
    quality = ("low", "medium", "high").index(tree._quality)
    size = 1024 + sum(-(-np.asarray(a, d).nbytes // 64) * 64 for _, d, a in tables)
    fields = struct.pack(
        "<8s8I4Q7dQ", b"\x89BVH\r\n\x1a\n", version, 0x01020304, 1024,
        kind, quality, width, len(tables), 0, len(primitives[0]), len(tree),
        len(blocks) // (8 * width), len(ids), tree.stats().build_seconds, *tree.bounds.ravel(),
        size,
    )  # fmt: skip
    return file_of(fields, tables)


def saved_scene(tables: dict[str, Any], trees: list[bytes]) -> bytes:
    """Return the file of a scene with some tables, of version 4."""
    dtypes = {
        "scenes": "<i8", "ids": "<i8", "children": "<i4", "maps": "<f8", "masks": "<u4",
        "visible": "<u1", "named": "<u1", "lengths": "<i4", "text": "<u1", "trees": "<i8",
        "normals": "<f8", "uv": "<f8",
    }  # fmt: skip
    entries = [(name, dtype, tables[name]) for name, dtype in dtypes.items()]
    size = 1024 + sum(-(-np.asarray(a, d).nbytes // 64) * 64 for _, d, a in entries)
    fields = struct.pack(
        "<8s4I7Q", b"\x89BVS\r\n\x1a\n", 4, 0x01020304, 1024, 12,
        len(tables["scenes"]), len(trees), len(tables["ids"]), len(tables["text"]),
        len(tables["normals"]), len(tables["uv"]), size + sum(map(len, trees)),
    )  # fmt: skip
    return file_of(fields, entries, b"".join(trees))


def saved_index(folder: Path, source: str = "mesh") -> dict[str, Any]:
    """Return the index of the parts in a folder: of version 1, or 2 where faces have groups."""
    rows, version, total = list[dict[str, Any]](), 1, 0
    for tree_path in sorted(folder.glob("*.bvh")):
        tree, ids_path = tree_path.read_bytes(), tree_path.with_suffix(".npy")
        count, box = struct.unpack_from("<Q", tree, 48)[0], struct.unpack_from("<6d", tree, 80)
        rows.append({"triangles": count, "bounds": list(box), "tree_bytes": len(tree)})
        rows[-1] |= {"tree_header": tree[1008:1024].hex(), "ids_bytes": ids_path.stat().st_size}
        rows[-1]["ids_digest"] = blake2b(ids_path.read_bytes(), digest_size=16).hexdigest()
        total += count
        if struct.unpack_from("<I", tree, 36)[0]:
            at = tree.index(b"face_bits")
            offset, size = struct.unpack_from("<2Q", tree, at + 40)
            words = np.frombuffer(tree, "<u4", size // 4, offset)
            rows[-1]["groups"], version = int(np.bitwise_or.reduce(words)), 2
    content = {
        "format": "bvh parts", "version": version, "triangles": total, "quality": "medium",
        "sources": [{"name": source, "first": 0, "triangles": total}], "parts": rows,
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return content | {"digest": blake2b(text.encode(), digest_size=16).hexdigest()}
