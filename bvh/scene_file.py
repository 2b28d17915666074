"""The file of a saved scene: its header, tables, and trees; its layout is known in this file alone.

A file is a header of 1024 bytes, tables as those of a tree's file lie (see `tree_file`), and then
the files of all trees, whole, one behind another. All numbers are little-endian.

====== ===== =====================================================================================
offset bytes header
====== ===== =====================================================================================
0      8     magic: 137 66 86 83 13 10 26 10
8      4 * 4 version, byte order mark 0x01020304, bytes of the header, tables
24     8 * 7 scenes, trees, instances, bytes of names, vertex normals, texture coordinates, bytes of
             the file
80     72 n  tables: name (16), dtype (8), rows, columns, offset, bytes (8 each), digest (16)
...          zeros
1008   16    BLAKE2b of all before
====== ===== =====================================================================================

Scenes come after those that they hold, the outermost last; so no scene can hold itself. Instances
are those of the first scene, then those of the next. A child is the number of a tree, or ~k for
scene k. In version 1 scenes do not tell what is up: it is z.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from bvh.tree_file import (
    HEADER_SIZE,
    ORDER_MARK,
    Place,
    check_header,
    digests_in,
    file_size,
    laid_out,
    signed,
)

SCENE_MAGIC = b"\x89BVS\r\n\x1a\n"
# The newest; 1 is the version in which z is always up, in which scenes are still written of which
# that is true.
VERSION = 2
TABLES = 12
# What is up, by its number.
UPS = ("z", "x", "y", "-x", "-y", "-z")

_FIXED = struct.Struct("<8s4I7Q")


class SceneHeader(NamedTuple):
    """What a header says of a scene."""

    scenes: int
    trees: int
    instances: int
    text: int
    normals: int
    uv: int
    size: int
    digests: tuple[bytes, ...]
    # Whether each scene tells what is up.
    has_up: bool = False


def tables_of(header: SceneHeader) -> list[Place]:
    """Return where the tables lie: it follows from the counts alone."""
    n = header.instances
    return laid_out(
        [
            ("scenes", "<i8", header.scenes, 2 + header.has_up),  # instances, the next id, up
            ("ids", "<i8", n, 0),
            ("children", "<i4", n, 0),
            ("maps", "<f8", n, 12),
            ("masks", "<u4", n, 0),
            ("visible", "<u1", n, 0),
            ("named", "<u1", n, 0),
            ("lengths", "<i4", n, 0),  # of names, in bytes
            ("text", "<u1", header.text, 0),  # all names, UTF-8
            ("trees", "<i8", header.trees, 3),  # bytes; whether it has normals, and uv
            ("normals", "<f8", header.normals, 3),
            ("uv", "<f8", header.uv, 2),
        ]
    )


def tables_end(header: SceneHeader) -> int:
    """Return where the trees begin."""
    return file_size(tables_of(header))


def packed_scene(header: SceneHeader) -> bytes:
    """Return the bytes of a header."""
    version = VERSION if header.has_up else 1
    fixed = _FIXED.pack(SCENE_MAGIC, version, ORDER_MARK, HEADER_SIZE, TABLES, *header[:7])
    return signed(fixed, tables_of(header), header.digests)


def unpacked_scene(data: bytes, size: int) -> SceneHeader:
    """Return what the header `data` of a file of `size` bytes says.

    Raises
    ------
    ValueError
        If it is damaged, contradicts itself or the file's size.
    """
    check_header(data, SCENE_MAGIC, VERSION)
    _, version, _, _, _, *counts = _FIXED.unpack_from(data)
    digests = digests_in(data, _FIXED.size, TABLES)
    header = SceneHeader._make((*counts, digests, version == VERSION))
    # Before anything is made of counts: nothing is as long as the file is not. This bounds them.
    if any(count > size for count in counts):
        raise ValueError("is not valid: its header counts more than the file can hold")
    if packed_scene(header) != data[:HEADER_SIZE]:
        raise ValueError("is not valid: its table of arrays contradicts its counts")
    if header.size != size:
        what = "is cut off" if size < header.size else "is too long"
        raise ValueError(f"{what}: it has {size} bytes, its header says {header.size}")
    if header.scenes < 1 or tables_end(header) > size:
        raise ValueError("is not valid: its header contradicts itself")
    return header
