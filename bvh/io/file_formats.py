"""File formats of saved trees and scenes: the fields of their headers, their arrays and tables.

Both are files of `container`.

====== ===== =====================================================================================
offset bytes header of a tree
====== ===== =====================================================================================
0      8     magic: 137 66 86 72 13 10 26 10
8      4 * 3 version, byte order mark, bytes of the header
20     4 * 5 kind (0 triangles, 1 boxes, 2 obbs, 3 spheres, 4 capsules), quality (0 and 1 medium,
             2 high), lanes of a node, arrays, whether faces have bits (of `groups`)
40     8 * 4 vertices (or shapes), primitives, nodes, rows of ids
72     8 * 7 seconds of the build, lower and upper corner of all that can be hit
128    8     bytes of the file
136    72 n  arrays
====== ===== =====================================================================================

The arrays of a scene are tables, and behind them are the whole files of all trees.

====== ===== =====================================================================================
offset bytes header of a scene
====== ===== =====================================================================================
0      8     magic: 137 66 86 83 13 10 26 10
8      4 * 4 version, byte order mark, bytes of the header, tables
24     8 * 7 scenes, trees, instances, bytes of names and materials, vertex normals, texture
             coordinates, bytes of the file
80     72 n  tables
====== ===== =====================================================================================

Scenes come after those that they contain, the outermost last; so no scene can contain itself.
Instances are those of the first scene, then those of the next. A child is the number of a tree, or
~k for scene k. Materials are behind the names.

Trees of triangles have version 5, or 6 where their groups are compact, of int16. Their groups hold
the ids, and the array of ids is empty. Other trees have version 1, and scenes version 4. Older
versions, of bvh 0.1.0 and 0.2.0, are refused.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io import container
from bvh.runtime.arguments import MAX_PRIMITIVES, MAX_ROWS, Axis
from bvh.runtime.simd import WIDTH
from bvh.tree import triangle_groups, wide_nodes
from bvh.tree.arrays import TreeArrays
from bvh.tree.primitives import Custom, count_of
from bvh.tree.shapes import SHAPES

MAGIC, SCENE_MAGIC = b"\x89BVH\r\n\x1a\n", b"\x89BVS\r\n\x1a\n"
# Versions: the newest of trees and of scenes, and the oldest of trees of triangles.
VERSION, SCENE_VERSION, OLDEST = 6, 4, 5
# Kinds of primitives by their codes, and numbers of a point of each.
POINT_SIZE = {"triangles": 3} | {s.arrays.__name__.lower(): s.size for s in SHAPES}
KINDS = tuple(POINT_SIZE)
# Qualities by their codes; "low" is read as "medium".
QUALITIES = ("low", "medium", "high")
WIDTHS = (4, 8, 16)
TABLES = 12
# Axes that can be up, by their number.
UPS: tuple[Axis, ...] = ("z", "x", "y", "-x", "-y", "-z")

# Names of the arrays of primitives; all kinds but triangles have the first alone.
PRIMITIVE_ARRAYS = ("points", "faces")
# A leaf's code is an int32 that counts rows in eighths; a node's is its number.
MAX_NODES, MAX_ID_ROWS = 2**31 - 1, 2 ** (31 - wide_nodes.LEAF_BITS)

_TREE_FIELDS = struct.Struct("<8s8I4Q7dQ")
_SCENE_FIELDS = struct.Struct("<8s4I7Q")


class TreeHeader(NamedTuple):
    """Fields of a tree's header, and the digests of its arrays.

    `points` counts vertices of triangles, or shapes of other kinds; `rows` counts triangle groups,
    or ids of shapes. Nodes and groups have `width` lanes; with `compact`, groups are of int16.
    `seconds` is the time of the build, `bounds` the lower and upper corner of all that can be hit.
    """

    kind: str
    quality: str
    width: int
    points: int
    primitives: int
    nodes: int
    rows: int
    seconds: float
    bounds: tuple[float, ...]
    digests: tuple[bytes, ...] = ()
    has_face_ids: bool = False
    has_face_bits: bool = False
    compact: bool = False

    @property
    def version(self) -> int:
        """Format version: 1 for shapes; for triangles 6 if groups are compact, else 5."""
        if self.kind != "triangles":
            return 1
        return VERSION if self.compact else OLDEST


class SceneHeader(NamedTuple):
    """Fields of a scene's header, and the digests of its tables.

    `text` is the bytes of names and materials, `size` those of the file. The other numbers count
    scenes, trees, instances, vertex normals and texture coordinates.
    """

    scenes: int
    trees: int
    instances: int
    text: int
    normals: int
    uv: int
    size: int
    digests: tuple[bytes, ...]


def entries_of(header: TreeHeader) -> list[container.ArrayEntry]:
    """Return the table of a tree's arrays, which follows from the counts in its header."""
    kind, width = header.kind, header.width
    triangles, lanes = kind == "triangles", "<i2" if header.compact else "<f4"
    # Name, type, rows and columns, 0 for flat arrays. Triangle groups hold the ids of triangles.
    shapes = [
        ("frame", "<f8", 4, 3),
        ("blocks", "<f4", header.nodes * wide_nodes.ROWS * width, 0),
        ("ids", "<i4", 0 if triangles else header.rows, width if triangles else 1),
        ("groups", lanes, header.rows * triangle_groups.ROWS * width if triangles else 0, 0),
        ("points", "<f8", header.points, POINT_SIZE[kind]),
    ]
    if triangles:
        shapes.append(("faces", "<i4", header.primitives, 3))
    if header.has_face_ids:
        shapes.append(("face_ids", "<i4", header.primitives, 0))
    if header.has_face_bits:
        shapes.append(("face_bits", "<u4", header.primitives, 0))
    return container.laid_out(shapes)


def packed(header: TreeHeader) -> bytes:
    """Return the HEADER_SIZE bytes of a tree's header."""
    entries = entries_of(header)
    codes = KINDS.index(header.kind), QUALITIES.index(header.quality)
    fields = _TREE_FIELDS.pack(
        MAGIC, header.version, container.ORDER_MARK, container.HEADER_SIZE, *codes, header.width,
        len(entries), header.has_face_bits,
        header.points, header.primitives, header.nodes, header.rows,
        header.seconds, *header.bounds, container.end_of(entries),
    )  # fmt: skip
    return container.packed_header(fields, entries, header.digests)


def unpacked(data: bytes, size: int) -> TreeHeader:
    """Return the checked header in `data`, the first bytes of a tree's file of `size` bytes."""
    container.check_header(data, MAGIC, VERSION)
    fields = _TREE_FIELDS.unpack_from(data)
    # `kind` and `quality` are codes, `entries` is the number of arrays, and `counts` are those of
    # vertices (or shapes), primitives, nodes and rows of ids.
    version, (kind, quality, width, entries, has_bits, *counts) = fields[1], fields[4:13]
    if kind >= len(KINDS) or quality >= len(QUALITIES) or width not in WIDTHS:
        raise ValueError("is not valid: its header has an unknown kind, quality or width")
    limits = (MAX_ROWS, MAX_PRIMITIVES, MAX_NODES, MAX_ID_ROWS)
    if any(count > limit for count, limit in zip(counts, limits, strict=True)):
        raise ValueError("is not valid: its header counts more than a tree can hold")
    triangles = KINDS[kind] == "triangles"
    if triangles:
        _refuse_older(version, OLDEST, "tree")
    # Trees of triangles have six arrays (see `entries_of`), trees of other shapes five. Arrays of
    # the ids and of the group bits of faces are optional, and only for triangles.
    has_face_bits = triangles and has_bits == 1
    has_face_ids = triangles and entries == 7 + has_face_bits
    expected = 5 + triangles + has_face_ids + has_face_bits
    if (not triangles and counts[0] != counts[1]) or entries != expected:
        raise ValueError("is not valid: its header contradicts itself")
    seconds, *bounds = fields[13:20]
    low, high = np.array(bounds).reshape(2, 3)
    # Bounds are NaN if there is nothing that can be hit.
    bounded = np.isfinite(bounds).all() and (low <= high).all()
    if not (math.isfinite(seconds) and seconds >= 0.0 and (bounded or np.isnan(bounds).all())):
        raise ValueError("is not valid: its header has a time or bounds that cannot be")
    digests = container.digests_in(data, _TREE_FIELDS.size, entries)
    names = KINDS[kind], QUALITIES[quality]
    has = has_face_ids, has_face_bits, triangles and version == VERSION
    header = TreeHeader._make((*names, width, *counts, seconds, tuple(bounds), digests, *has))
    container.check_packed(data, packed(header), size, container.end_of(entries_of(header)))
    return header._replace(quality="medium") if header.quality == "low" else header


def _refuse_older(version: int, oldest: int, made: str) -> None:
    """Raise if `version` is before the oldest that is read; `made` is "tree" or "scene"."""
    if version < oldest:
        why = "of bvh 0.2.0 or before, which this version does not read"
        cure = f"build the {made} again and save it"
        raise ValueError(f"has format version {version}, {why}: {cure}")


def box_in(data: bytes) -> tuple[str, int, tuple[float, ...]]:
    """Return kind, number of primitives and bounds (two corners) in a tree's header, unchecked."""
    if len(data) < container.HEADER_SIZE or not data.startswith(MAGIC):
        raise ValueError(container.NOT_SAVED)
    fields = _TREE_FIELDS.unpack_from(data)
    code, count, bounds = fields[4], fields[10], fields[14:20]
    # A slice, so that the code of an unknown kind gives "".
    return "".join(KINDS[code : code + 1]), count, bounds


def size_of(data: bytes) -> int:
    """Return the size of a tree's file in bytes, as in `data`, its checked header."""
    size: int = _TREE_FIELDS.unpack_from(data)[-1]
    return size


def tree_contents(
    arrays: TreeArrays, face_ids: NDArray[np.int32] | None, face_bits: NDArray[np.uint32] | None,
    bounds: NDArray[np.float64], quality: str, seconds: float, threads: int,
) -> tuple[int, Iterator[NDArray[np.uint8]]]:  # fmt: skip
    """Return the size in bytes of the file of a tree, and an iterator over pieces of its content.

    `face_ids` and `face_bits` are the source face and the group bits of each triangle, or None;
    `bounds` (2, 3) is the box of all that can be hit, NaN if nothing can; `seconds` is the time of
    the build.
    """
    nodes, groups, primitives, frame, _ = arrays
    if isinstance(primitives, Custom):
        raise TypeError("a BVH over custom primitives cannot be saved: their test is code")
    stored: dict[str, Any] = {
        "frame": frame, "blocks": nodes.data, "groups": groups,
        "ids": nodes.ids[:0] if groups.size else nodes.ids,
        "face_ids": face_ids, "face_bits": face_bits,
        **dict(zip(PRIMITIVE_ARRAYS, primitives, strict=False)),
    }  # fmt: skip
    header = TreeHeader(
        type(primitives).__name__.lower(), quality, WIDTH, len(primitives.points),
        count_of(primitives), nodes.size, len(nodes.rows), seconds,
        tuple(bounds.ravel().tolist()), has_face_ids=face_ids is not None,
        has_face_bits=face_bits is not None, compact=arrays.compact,
    )  # fmt: skip
    entries = entries_of(header)
    pieces = container.file_pieces(
        entries, stored, lambda digests: packed(header._replace(digests=digests)), threads
    )
    return container.end_of(entries), pieces


def tables_of(header: SceneHeader) -> list[container.ArrayEntry]:
    """Return the entries of a scene's tables, which follow from the counts in its header."""
    n = header.instances
    shapes = [
        ("scenes", "<i8", header.scenes, 3),  # number of instances, the next id, index in UPS
        ("ids", "<i8", n, 0),
        ("children", "<i4", n, 0),
        ("maps", "<f8", n, 12),
        ("masks", "<u4", n, 0),
        ("visible", "<u1", n, 0),
        ("named", "<u1", n, 0),
        ("lengths", "<i4", n, 0),  # of names, in bytes
        ("text", "<u1", header.text, 0),  # all names, UTF-8, and materials
        # Bytes of the file; 1 or 0 for normals, uv, a material, and reversed faces.
        ("trees", "<i8", header.trees, 5),
        ("normals", "<f8", header.normals, 3),
        ("uv", "<f8", header.uv, 2),
    ]
    return container.laid_out(shapes)


def tables_end(header: SceneHeader) -> int:
    """Return the offset in bytes of the first tree in a scene's file, behind all tables."""
    return container.end_of(tables_of(header))


def packed_scene(header: SceneHeader) -> bytes:
    """Return the HEADER_SIZE bytes of a scene's header."""
    numbers = SCENE_VERSION, container.ORDER_MARK, container.HEADER_SIZE, TABLES
    # The last field, the digests, is left out: they are in the table.
    fields = _SCENE_FIELDS.pack(SCENE_MAGIC, *numbers, *header[:-1])
    return container.packed_header(fields, tables_of(header), header.digests)


def unpacked_scene(data: bytes, size: int) -> SceneHeader:
    """Return the checked header in `data`, the first bytes of a scene's file of `size` bytes."""
    container.check_header(data, SCENE_MAGIC, SCENE_VERSION)
    _, version, _, _, _, *counts = _SCENE_FIELDS.unpack_from(data)
    _refuse_older(version, SCENE_VERSION, "scene")
    header = SceneHeader._make((*counts, container.digests_in(data, _SCENE_FIELDS.size, TABLES)))
    # Each count is a number of bytes, or of rows of at least one byte. With counts larger than the
    # file, offsets may not fit into the 64 bits of a header.
    if any(count > size for count in counts):
        raise ValueError("is not valid: its header counts more than the file can hold")
    container.check_packed(data, packed_scene(header), size, header.size)
    if header.scenes < 1 or tables_end(header) > size:
        raise ValueError("is not valid: its header contradicts itself")
    return header
