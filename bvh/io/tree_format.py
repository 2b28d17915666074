"""File format of a saved tree: its header fields and arrays, in the container of `container`.

====== ===== =====================================================================================
offset bytes header
====== ===== =====================================================================================
0      8     magic: 137 66 86 72 13 10 26 10
8      4 * 3 version, byte order mark, bytes of the header
20     4 * 5 kind (0 triangles, 1 boxes, 2 obbs), quality (0 low, 1 medium, 2 high), lanes of a
             node, arrays, 0
40     8 * 4 vertices (or boxes), primitives, nodes, rows of ids
72     8 * 7 seconds of the build, lower and upper corner of all that can be hit
128    8     bytes of the file
136    72 n  arrays
====== ===== =====================================================================================
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import (
    HEADER_SIZE,
    ORDER_MARK,
    ArrayEntry,
    check_header,
    check_packed,
    digest_of,
    digests_in,
    end_of,
    file_pieces,
    laid_out,
    packed_header,
)
from bvh.runtime.arguments import MAX_PRIMITIVES, MAX_ROWS
from bvh.runtime.simd import WIDTH
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import Custom, count_of
from bvh.tree.triangle_groups import ROWS as GROUP_ROWS
from bvh.tree.wide_nodes import LEAF_BITS
from bvh.tree.wide_nodes import ROWS as NODE_ROWS

MAGIC = b"\x89BVH\r\n\x1a\n"
# The newest; version 1 has no face ids, and trees without any are still written in it.
VERSION = 2
KINDS = ("triangles", "boxes", "obbs")
QUALITIES = ("low", "medium", "high")
WIDTHS = (4, 8, 16)

# Names of the arrays that primitives consist of; boxes and obbs have the first alone.
PRIMITIVE_ARRAYS = ("points", "faces")
# Numbers of a point: a vertex, two corners, two corners and three rows of a matrix.
POINT_SIZE = {"triangles": 3, "boxes": 6, "obbs": 18}
# A leaf's code is an int32 that counts rows in eighths; a node's is its number.
MAX_NODES, MAX_ID_ROWS = 2**31 - 1, 2 ** (31 - LEAF_BITS)

_FIELDS = struct.Struct("<8s8I4Q7dQ")


class Header(NamedTuple):
    """Fields of a tree's header, and the digests of its arrays."""

    kind: str
    quality: str
    width: int
    points: int
    primitives: int
    nodes: int
    rows: int
    seconds: float
    bounds: tuple[float, ...]
    digests: tuple[bytes, ...]
    has_face_ids: bool = False


def entries_of(header: Header) -> list[ArrayEntry]:
    """Return the table of arrays, which follows from the counts alone."""
    kind, width = header.kind, header.width
    lanes = width if kind == "triangles" else 1
    groups = header.rows * GROUP_ROWS * width if kind == "triangles" else 0
    shapes = [
        ("frame", "<f8", 4, 3),
        ("blocks", "<f4", header.nodes * NODE_ROWS * width, 0),
        ("ids", "<i4", header.rows, lanes),
        ("groups", "<f4", groups, 0),
        ("points", "<f8", header.points, POINT_SIZE[kind]),
    ]
    if kind == "triangles":
        shapes.append(("faces", "<i4", header.primitives, 3))
    if header.has_face_ids:
        shapes.append(("face_ids", "<i4", header.primitives, 0))
    return laid_out(shapes)


def packed(header: Header) -> bytes:
    """Return the bytes of a header."""
    entries = entries_of(header)
    version = VERSION if header.has_face_ids else 1
    codes = KINDS.index(header.kind), QUALITIES.index(header.quality)
    fields = _FIELDS.pack(
        MAGIC, version, ORDER_MARK, HEADER_SIZE, *codes, header.width, len(entries), 0,
        header.points, header.primitives, header.nodes, header.rows,
        header.seconds, *header.bounds, end_of(entries),
    )  # fmt: skip
    return packed_header(fields, entries, header.digests)


def unpacked(data: bytes, size: int) -> Header:
    """Return the header in the first bytes `data` of a file of `size` bytes.

    Raises
    ------
    ValueError
        If it is not the header of a tree, is damaged, contradicts itself or the file's size.
    """
    check_header(data, MAGIC, VERSION)
    fields = _FIELDS.unpack_from(data)
    _, _, _, _, kind, quality, width, entries, _, *counts = fields[:13]
    if kind >= len(KINDS) or quality >= len(QUALITIES) or width not in WIDTHS:
        raise ValueError("is not valid: its header has an unknown kind, quality or width")
    limits = (MAX_ROWS, MAX_PRIMITIVES, MAX_NODES, MAX_ID_ROWS)
    if any(count > limit for count, limit in zip(counts, limits, strict=True)):
        raise ValueError("is not valid: its header counts more than a tree can hold")
    triangles = KINDS[kind] == "triangles"
    has_face_ids = triangles and entries == 7
    if (not triangles and counts[0] != counts[1]) or entries != 5 + triangles + has_face_ids:
        raise ValueError("is not valid: its header contradicts itself")
    seconds, *bounds = fields[13:20]
    if not (math.isfinite(seconds) and seconds >= 0.0 and _are_bounds(bounds)):
        raise ValueError("is not valid: its header has a time or bounds that cannot be")
    points, primitives, nodes, rows = counts
    header = Header(
        KINDS[kind], QUALITIES[quality], width, points, primitives, nodes, rows, seconds,
        tuple(bounds), digests_in(data, _FIELDS.size, entries), has_face_ids,
    )  # fmt: skip
    check_packed(data, packed(header), size, end_of(entries_of(header)))
    return header


def _are_bounds(bounds: list[float]) -> bool:
    """Tell two corners, or none, from other numbers."""
    if all(math.isnan(x) for x in bounds):
        return True
    ordered = all(low <= high for low, high in zip(bounds[:3], bounds[3:], strict=True))
    return ordered and all(math.isfinite(x) for x in bounds)


def tree_contents(
    arrays: TreeArrays,
    face_ids: NDArray[np.int32] | None,
    bounds: NDArray[np.float64],
    quality: str,
    seconds: float,
    threads: int,
) -> tuple[int, Iterator[NDArray[np.uint8]]]:
    """Return how many bytes the file of a tree has, and the bytes, piece by piece.

    Raises
    ------
    TypeError
        If the tree holds a user's primitives.
    """
    nodes, groups, primitives, frame = arrays
    if isinstance(primitives, Custom):
        raise TypeError("a BVH over custom primitives cannot be saved: their test is code")
    stored: dict[str, NDArray[Any]] = {
        "frame": frame, "blocks": nodes.data, "ids": nodes.ids, "groups": groups,
        **dict(zip(PRIMITIVE_ARRAYS, primitives, strict=False)),
    }  # fmt: skip
    if face_ids is not None:
        stored["face_ids"] = face_ids
    for name, array in stored.items():
        stored[name] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    header = Header(
        type(primitives).__name__.lower(), quality, WIDTH, len(primitives.points),
        count_of(primitives), nodes.size, len(nodes.ids), seconds,
        tuple(bounds.ravel().tolist()),
        tuple(digest_of(array, threads) for array in stored.values()), face_ids is not None,
    )  # fmt: skip
    entries = entries_of(header)
    return end_of(entries), file_pieces(packed(header), entries, stored)
