"""File format of a saved scene: its header fields, tables, and trees.

It is the container of `container`, whose arrays are tables, and behind those the files of all trees
(see `tree_format`), whole, one after another.

====== ===== =====================================================================================
offset bytes header
====== ===== =====================================================================================
0      8     magic: 137 66 86 83 13 10 26 10
8      4 * 4 version, byte order mark, bytes of the header, tables
24     8 * 7 scenes, trees, instances, bytes of names, vertex normals, texture coordinates, bytes of
             the file
80     72 n  tables
====== ===== =====================================================================================

Scenes come after those that they contain, the outermost last; so no scene can contain itself.
Instances are those of the first scene, then those of the next. A child is the number of a tree, or
~k for scene k. In version 1 scenes have no column for the axis that is up: it is z.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from bvh.io.container import (
    HEADER_SIZE,
    ORDER_MARK,
    ArrayEntry,
    check_header,
    check_packed,
    digests_in,
    end_of,
    laid_out,
    packed_header,
)

SCENE_MAGIC = b"\x89BVS\r\n\x1a\n"
# The newest; scenes in which z is up everywhere are still written in version 1.
VERSION = 2
TABLES = 12
# Axes that can be up, by their number.
UPS = ("z", "x", "y", "-x", "-y", "-z")

_FIELDS = struct.Struct("<8s4I7Q")


class SceneHeader(NamedTuple):
    """Fields of a scene's header, and the digests of its tables."""

    scenes: int
    trees: int
    instances: int
    text: int
    normals: int
    uv: int
    size: int
    digests: tuple[bytes, ...]
    # Whether scenes have a column for the axis that is up.
    has_up: bool = False


def tables_of(header: SceneHeader) -> list[ArrayEntry]:
    """Return the entries of the tables, which follow from the counts alone."""
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
    """Return the offset of the first tree."""
    return end_of(tables_of(header))


def packed_scene(header: SceneHeader) -> bytes:
    """Return the bytes of a header."""
    version = VERSION if header.has_up else 1
    fields = _FIELDS.pack(SCENE_MAGIC, version, ORDER_MARK, HEADER_SIZE, TABLES, *header[:7])
    return packed_header(fields, tables_of(header), header.digests)


def unpacked_scene(data: bytes, size: int) -> SceneHeader:
    """Return the header in the first bytes `data` of a file of `size` bytes.

    Raises
    ------
    ValueError
        If it is damaged, contradicts itself or the file's size.
    """
    check_header(data, SCENE_MAGIC, VERSION)
    _, version, _, _, _, *counts = _FIELDS.unpack_from(data)
    digests = digests_in(data, _FIELDS.size, TABLES)
    header = SceneHeader._make((*counts, digests, version == VERSION))
    # Before any table is laid out: no count is larger than the file, which bounds them all.
    if any(count > size for count in counts):
        raise ValueError("is not valid: its header counts more than the file can hold")
    check_packed(data, packed_scene(header), size, header.size)
    if header.scenes < 1 or tables_end(header) > size:
        raise ValueError("is not valid: its header contradicts itself")
    return header
