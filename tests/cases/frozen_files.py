"""Frozen writer of saved files, as version 0.1.0 wrote them: it must never be adapted to the code.

Files in users' hands have this layout, byte for byte, and have to be readable for ever.
Only what is read of a tree follows the code.
"""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b
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
    (blocks, ids), groups, primitives, frame, _ = tree.arrays
    kind = ("triangles", "boxes", "obbs").index(tree.kind)
    if kind == 0:
        # Groups had normals, rounded from doubles.
        rows = groups.reshape(-1, 11, width)
        normals = np.cross(rows[:, 3:6].astype(float), rows[:, 6:9], axis=1)
        groups = np.concatenate([rows[:, :9], normals, rows[:, 9:]], axis=1).ravel()
    tables: list[Table] = [
        ("frame", "<f8", frame), ("blocks", "<f4", blocks), ("ids", "<i4", ids),
        ("groups", "<f4", groups), ("points", "<f8", primitives[0]),
    ]  # fmt: skip
    if kind == 0:
        tables.append(("faces", "<i4", tree.faces))
    if tree.face_ids is not None:
        tables.append(("face_ids", "<i4", tree.face_ids))
    quality = ("low", "medium", "high").index(tree._quality)
    size = 1024 + sum(-(-np.asarray(a, d).nbytes // 64) * 64 for _, d, a in tables)
    fields = struct.pack(
        "<8s8I4Q7dQ", b"\x89BVH\r\n\x1a\n", 2 if tree.face_ids is not None else 1, 0x01020304, 1024,
        kind, quality, width, len(tables), 0, len(primitives[0]), len(tree),
        len(blocks) // (8 * width), len(ids), tree.stats().build_seconds, *tree.bounds.ravel(),
        size,
    )  # fmt: skip
    return file_of(fields, tables)


def saved_scene(tables: dict[str, Any], trees: list[bytes]) -> bytes:
    """Return the file of a scene with some tables.

    Without a column for up, in version 1; with one for materials, in version 3.
    """
    dtypes = {
        "scenes": "<i8", "ids": "<i8", "children": "<i4", "maps": "<f8", "masks": "<u4",
        "visible": "<u1", "named": "<u1", "lengths": "<i4", "text": "<u1", "trees": "<i8",
        "normals": "<f8", "uv": "<f8",
    }  # fmt: skip
    entries = [(name, dtype, tables[name]) for name, dtype in dtypes.items()]
    size = 1024 + sum(-(-np.asarray(a, d).nbytes // 64) * 64 for _, d, a in entries)
    version = np.shape(tables["scenes"])[1] - 1 + (np.shape(tables["trees"])[1] == 4)
    fields = struct.pack(
        "<8s4I7Q", b"\x89BVS\r\n\x1a\n", version, 0x01020304, 1024, 12,
        len(tables["scenes"]), len(trees), len(tables["ids"]), len(tables["text"]),
        len(tables["normals"]), len(tables["uv"]), size + sum(map(len, trees)),
    )  # fmt: skip
    return file_of(fields, entries, b"".join(trees))
