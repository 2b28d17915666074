"""The file of a saved tree: its header, and where its arrays lie; known in this file alone.

A file is a header of 1024 bytes, then flat arrays, each at the next multiple of 64 bytes, and zeros
in between and up to a multiple of 64 at the end. All numbers are little-endian.

====== ===== =====================================================================================
offset bytes header
====== ===== =====================================================================================
0      8     magic: 137 66 86 72 13 10 26 10, which no transfer as text leaves as it is
8      4 * 8 version, byte order mark 0x01020304, bytes of the header, kind (0 triangles, 1 boxes,
             2 obbs), quality (0 low, 1 medium, 2 high), lanes of a node, arrays, 0
40     8 * 4 vertices (or boxes), primitives, nodes, rows of ids
72     8 * 7 seconds of the build, lower and upper corner of all that can be hit
128    8     bytes of the file
136    72 n  arrays: name (16), dtype (8), rows, columns, offset, bytes (8 each), digest (16)
...          zeros
1008   16    BLAKE2b of all before
====== ===== =====================================================================================

The digest of an array is the BLAKE2b of the CRC-32s of its pieces of 1 MiB: pieces can be checked
side by side, as fast as memory is read. It finds damage, not intent: who writes a file can write
its digests, and so nothing that is read is trusted for them (see `soundness`).
"""

from __future__ import annotations

import math
import struct
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import MAX_PRIMITIVES, MAX_ROWS
from bvh.leaves import ROWS as GROUP_ROWS
from bvh.wide_nodes import LEAF_BITS
from bvh.wide_nodes import ROWS as NODE_ROWS
from bvh.workers import share

MAGIC = b"\x89BVH\r\n\x1a\n"
# The newest; 1 is the version without face ids, in which trees that have none are still written.
VERSION = 2
ORDER_MARK = 0x01020304
HEADER_SIZE = 1024
ALIGNMENT = 64
KINDS = ("triangles", "boxes", "obbs")
QUALITIES = ("low", "medium", "high")
WIDTHS = (4, 8, 16)

# Numbers of a point: a vertex, two corners, two corners and three rows of a matrix.
POINT_SIZE = {"triangles": 3, "boxes": 6, "obbs": 18}
# A leaf's code is an int32 that counts rows in eighths; a node's is its number.
MAX_NODES, MAX_ID_ROWS = 2**31 - 1, 2 ** (31 - LEAF_BITS)

PIECE = 1 << 20
DIGEST_SIZE = 16

_BEGIN = struct.Struct("<8sII")
_FIXED = struct.Struct("<8s8I4Q7dQ")
_ENTRY = struct.Struct("<16s8s4Q16s")


class Place(NamedTuple):
    """Where an array lies; an array of one dimension has 0 columns."""

    name: str
    dtype: str
    rows: int
    columns: int
    offset: int
    size: int


class Header(NamedTuple):
    """What a header says of a tree."""

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
    # Whether the file tells which face of its source each triangle is a part of.
    has_face_ids: bool = False


def padded(size: int) -> int:
    """Return the next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def places_of(header: Header) -> list[Place]:
    """Return where the arrays lie: it follows from the counts alone."""
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


def laid_out(shapes: list[tuple[str, str, int, int]]) -> list[Place]:
    """Return where arrays of the given names, dtypes, rows and columns lie behind a header."""
    places, offset = [], HEADER_SIZE
    for name, dtype, rows, columns in shapes:
        size = rows * max(columns, 1) * int(dtype[2])
        places.append(Place(name, dtype, rows, columns, offset, size))
        offset += padded(size)
    return places


def file_size(places: list[Place]) -> int:
    """Return the bytes of a whole file."""
    return places[-1].offset + padded(places[-1].size)


def packed(header: Header) -> bytes:
    """Return the bytes of a header."""
    places = places_of(header)
    version = VERSION if header.has_face_ids else 1
    codes = KINDS.index(header.kind), QUALITIES.index(header.quality)
    fixed = _FIXED.pack(
        MAGIC, version, ORDER_MARK, HEADER_SIZE, *codes, header.width, len(places), 0,
        header.points, header.primitives, header.nodes, header.rows,
        header.seconds, *header.bounds, file_size(places),
    )  # fmt: skip
    return signed(fixed, places, header.digests)


def signed(fixed: bytes, places: list[Place], digests: tuple[bytes, ...]) -> bytes:
    """Return a header: what is before the table of arrays, the table, and the checksum."""
    parts = [fixed]
    for place, digest in zip(places, digests, strict=True):
        name, dtype, *numbers = place
        parts.append(_ENTRY.pack(name.encode(), dtype.encode(), *numbers, digest))
    body = b"".join(parts).ljust(HEADER_SIZE - DIGEST_SIZE, b"\0")
    return body + blake2b(body, digest_size=DIGEST_SIZE).digest()


def unpacked(data: bytes, size: int) -> Header:
    """Return what the header `data` of a file of `size` bytes says.

    Raises
    ------
    ValueError
        If it is not the header of a tree, is damaged, contradicts itself or the file's size.
    """
    check_header(data, MAGIC, VERSION)
    fields = _FIXED.unpack_from(data)
    _, _, _, _, kind, quality, width, entries, _, *counts = fields[:13]
    if kind >= len(KINDS) or quality >= len(QUALITIES) or width not in WIDTHS:
        raise ValueError("is not valid: its header has an unknown kind, quality or width")
    limits = (MAX_ROWS, MAX_PRIMITIVES, MAX_NODES, MAX_ID_ROWS)
    if any(count > most for count, most in zip(counts, limits, strict=True)):
        raise ValueError("is not valid: its header counts more than a tree can hold")
    triangles = KINDS[kind] == "triangles"
    has_face_ids = triangles and entries == 7
    if (not triangles and counts[0] != counts[1]) or entries != 5 + triangles + has_face_ids:
        raise ValueError("is not valid: its header contradicts itself")
    seconds, *bounds = fields[13:20]
    if not (math.isfinite(seconds) and seconds >= 0.0 and _are_bounds(bounds)):
        raise ValueError("is not valid: its header has a time or bounds that cannot be")
    digests = digests_in(data, _FIXED.size, entries)
    names = KINDS[kind], QUALITIES[quality]
    points, primitives, nodes, rows = counts
    header = Header(
        *names, width, points, primitives, nodes, rows, seconds, tuple(bounds), digests,
        has_face_ids,
    )  # fmt: skip
    # Whatever else is in it follows from what has been read.
    if packed(header) != data[:HEADER_SIZE]:
        raise ValueError("is not valid: its table of arrays contradicts its counts")
    whole = file_size(places_of(header))
    if size != whole:
        what = "is cut off" if size < whole else "is too long"
        raise ValueError(f"{what}: it has {size} bytes, its header says {whole}")
    return header


def check_header(data: bytes, magic: bytes, version: int) -> None:
    """Refuse what is no whole header of a file of ours, up to a version, with its checksum."""
    if not data.startswith(magic):
        raise ValueError("is not a saved tree")
    if len(data) < HEADER_SIZE:
        raise ValueError(f"is cut off: it has {len(data)} of the {HEADER_SIZE} bytes of a header")
    found, mark = _BEGIN.unpack_from(data)[1:]
    if mark != ORDER_MARK:
        raise ValueError("is damaged: its byte order mark is wrong")
    if not 1 <= found <= version:
        known = "1" if version == 1 else f"1 to {version}"
        raise ValueError(f"has format version {found}; this version of bvh reads {known}")
    body = data[: HEADER_SIZE - DIGEST_SIZE]
    if blake2b(body, digest_size=DIGEST_SIZE).digest() != data[HEADER_SIZE - DIGEST_SIZE :]:
        raise ValueError("is damaged: the checksum of its header is wrong")


def digests_in(data: bytes, begin: int, entries: int) -> tuple[bytes, ...]:
    """Return the digests in a header whose table of arrays begins at `begin`."""
    ends = (begin + (k + 1) * _ENTRY.size for k in range(entries))
    return tuple(data[end - DIGEST_SIZE : end] for end in ends)


def _are_bounds(bounds: list[float]) -> bool:
    """Tell two corners, or none, from other numbers."""
    if all(math.isnan(x) for x in bounds):
        return True
    ordered = all(low <= high for low, high in zip(bounds[:3], bounds[3:], strict=True))
    return ordered and all(math.isfinite(x) for x in bounds)


def digest_of(array: NDArray[Any], threads: int) -> bytes:
    """Return the digest of a C-contiguous array's bytes."""
    data = array.reshape(-1).view(np.uint8)
    sums = np.empty(-(-len(data) // PIECE), "<u4")

    def work(begin: int, end: int) -> None:
        for i in range(begin, end):
            sums[i] = zlib.crc32(data[i * PIECE : (i + 1) * PIECE].data)

    share(len(sums), 4, work, threads)
    return blake2b(sums.tobytes(), digest_size=DIGEST_SIZE).digest()
