"""STL files: binary ones by their length, text by its facets, each solid a part.

trimesh takes a binary file whose length does not fit its count to be text without facets.
"""

from typing import Any

import numpy as np

from bvh.io.formats import text_lines
from bvh.io.formats.file_meshes import FileMesh, Part
from bvh.runtime.caller_warnings import warn_caller

# Bytes before the triangles of a binary file, and the bytes of a triangle.
HEADER = 84
ROW = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
# Bytes in which zeros are looked for: binary numbers have some, text has none.
START = 1 << 16
# First words of the lines of a facet, and first words that are known. The kind of a line is an
# index in WORDS: kinds below SOLID are lines of facets.
FACET = b"facet", b"outer", b"vertex", b"vertex", b"vertex", b"endloop", b"endfacet"
WORDS = *dict.fromkeys(FACET), b"solid", b"endsolid"
SOLID = WORDS.index(b"solid")


def read_stl(data: bytes, resolver: Any) -> FileMesh:
    """Return the triangles of an STL file, which refers to no other: `resolver` is not used."""
    count = binary_count(data, len(data))
    if count is None:
        return _read_text(data)
    rows = np.frombuffer(data, ROW, count, HEADER)
    return _mesh(rows["corners"].reshape(-1, 3).astype(np.float64))


def binary_count(start: bytes, size: int) -> int | None:
    """Return the number of triangles of a binary file of `size` bytes; None if the file is text.

    `start` are its first START bytes, or more. Warn if the count in its header is unknown, or fewer
    than its triangles; raise a ValueError if its length does not fit.
    """
    count = int.from_bytes(start[80:84], "little")
    if (size < HEADER or size != HEADER + count * ROW.itemsize) and _is_text(start):
        return None
    if size < HEADER:
        raise ValueError(f"it is no STL file: it has {size} bytes")
    stored, more = divmod(size - HEADER, ROW.itemsize)
    # Programs that do not know the count when they begin write 0 or 0xFFFFFFFF.
    unknown = stored > 0 and count in (0, 0xFFFFFFFF)
    if not (more == 0 if unknown else count <= stored):
        raise ValueError(f"its length does not fit its count: {size} bytes, and {count} triangles")
    if unknown:
        warn_caller(f"an STL file has {stored} triangles, its count says {count}: all are read")
        return stored
    if size > HEADER + count * ROW.itemsize:
        extra = size - HEADER - count * ROW.itemsize
        warn_caller(f"{extra} bytes behind the {count} triangles of an STL file are ignored")
    return count


def _is_text(data: bytes) -> bool:
    """Return whether a file is text; `data` are its first START bytes, or more."""
    # Binary files may begin with "solid", too, but have zeros in their numbers.
    begin = data.removeprefix(text_lines.MARK).lstrip()[:5]
    return begin.lower() == b"solid" and b"\0" not in data[:START]


def _mesh(points: Any, *parts: Any) -> FileMesh:
    """Return the mesh whose triangle i has the points 3 i to 3 i + 2, with these parts."""
    corners = np.arange(len(points), dtype=np.int32)
    return FileMesh(points, corners, np.arange(0, len(points) + 1, 3), *parts)


def _read_text(data: bytes) -> FileMesh:
    """Return the triangles of a text, whose solids are its parts."""
    text = text_lines.with_newlines(data)
    points, kinds = [np.empty((0, 3))], [np.empty(0, np.int8)]
    parts = [Part()]
    for lines in text_lines.pieces_of(text):
        # The kind of each line: an index in WORDS, below SOLID for lines of facets; -1: unknown.
        kind = np.full(len(lines.begins), -1, np.int8)
        for k, word in enumerate(WORDS):
            kind[lines.start_with(word, any_case=True)] = k
        is_vertex = kind == WORDS.index(b"vertex")
        content, counts = lines.text(is_vertex, len("vertex")), lines.counts[is_vertex] - 1
        coordinates = text_lines.numbers(content, np.float64, int(counts.sum()))
        if coordinates is None or (counts != 3).any():
            if coordinates is None:
                row, _ = text_lines.first_without_numbers(content, np.float64)
            else:
                row = int((counts != 3).argmax())
            row += sum(map(len, points))
            number = text_lines.line_number(text, row, rb"(?i:vertex)" + text_lines.GAP)
            raise ValueError(f"line {number}: a vertex must have three coordinates")
        for row in np.flatnonzero(kind == SOLID).tolist():
            name = lines.data[lines.begins[row] + len("solid") : lines.ends[row]].tobytes()
            parts.append(Part(name.decode("utf-8", "replace").strip() or None))
        points.append(coordinates.reshape(-1, 3))
        kinds.append(kind)
    kind = np.concatenate(kinds)
    # Without the lines of solids, and unknown ones such as of colours, the text has only facets.
    of_facets = np.flatnonzero((kind >= 0) & (kind < SOLID))
    pattern = np.array([WORDS.index(word) for word in FACET])
    expected = np.resize(pattern, len(of_facets))
    bad = kind[of_facets] != expected
    # No solid begins or ends within a facet, before one of its lines but the first (`expected` 0).
    borders = np.flatnonzero(kind >= SOLID)
    bad |= (expected > 0) & (np.diff(np.searchsorted(borders, of_facets), prepend=0) > 0)
    if bad.any() or len(of_facets) % len(FACET):
        row = int(of_facets[bad.argmax()]) if bad.any() else len(kind) - 1
        raise ValueError(f"line {text_lines.line_number(text, row)}: it is no part of a facet")
    # A facet belongs to the last solid that begins before it; part 0 is before all solids.
    first_lines = of_facets[:: len(FACET)]
    part_ids = np.searchsorted(np.flatnonzero(kind == SOLID), first_lines, "right")
    return _mesh(np.concatenate(points), tuple(parts), part_ids)
