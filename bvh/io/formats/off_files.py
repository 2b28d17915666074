"""OFF files: vertices and faces in their order, whatever is behind them in their lines.

trimesh sorts the faces: triangles before quads, and these before others.
"""

import re
from typing import Any

import numpy as np

from bvh.io.formats.file_meshes import FileMesh
from bvh.io.formats.text_lines import line_number, shown, table, with_newlines
from bvh.runtime.caller_warnings import warn_caller

# Texture coordinates, colours and normals, which are ignored, follow the coordinates.
KEYWORD = re.compile(rb"\s*((?:ST)?C?N?)(4?)(n?)OFF(\s+BINARY\b)?(?=[\s\d])")


def read_off(data: bytes, resolver: Any) -> FileMesh:
    """Return the polygons of an OFF file; `resolver` is unused, as it names no other files."""
    # Comments become spaces, so that errors find the numbers of lines.
    text = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), with_newlines(data))
    keyword = KEYWORD.match(text)
    if keyword is None:
        raise ValueError(f"it must begin with OFF, got {shown(data[:60])}")
    if keyword[4]:
        raise ValueError("it is a binary OFF file: only those of text are read")
    if keyword[2] or keyword[3]:
        name = keyword[0].strip().decode()
        raise ValueError(f"it is a {name} file: only those of three coordinates are read")
    # Lines before the keyword, which are empty or comments, stay: errors count them.
    begin, end = keyword.start(1), keyword.end()
    text = text[:begin] + b" " * (end - begin) + text[end:]
    # All numbers, the index of the first number of each line, and how many numbers lines have.
    values, begins = table(text)
    widths, rows = np.diff(begins), len(begins) - 1
    if rows == 0 or widths[0] < 2:
        raise ValueError("it has no line with the numbers of its vertices and faces")
    counts = values[:2]
    if not all(count >= 0.0 and count.is_integer() for count in counts):
        raise ValueError(f"it must have numbers of vertices and faces, got {counts.tolist()}")
    points, faces = map(int, counts)
    more = rows - 1 - points - faces
    if more < 0:
        what = f"{rows - 1} lines do not hold its {points} vertices and {faces} faces"
        raise ValueError(f"it is cut off: {what}")
    if more > 0:
        warn_caller(f"{more} lines behind the faces of an OFF file are ignored")

    def refuse(row: int, what: str) -> None:
        """Raise an error with the line of a row of the table, which lacks empty lines."""
        raise ValueError(f"line {line_number(text, row)}: {what}")

    # Row 0 has the counts; vertices and faces follow.
    first_face, end = 1 + points, 1 + points + faces
    short = np.flatnonzero(widths[1:first_face] < 3)
    if len(short):
        refuse(1 + int(short[0]), "a vertex must have three coordinates")
    # The line of a face has the number of its corners, the corners, and perhaps a colour.
    lengths = values[begins[first_face:end]]
    fits = lengths < widths[first_face:end]
    bad = ~((lengths >= 0) & fits & (lengths == np.floor(lengths)))
    if bad.any():
        refuse(first_face + int(bad.argmax()), "a face must have a number of corners, and these")
    sizes = lengths.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    # The indices of all corners in `values`.
    places = np.repeat(begins[first_face:end] + 1 - offsets[:-1], sizes) + np.arange(offsets[-1])
    corners = values[places]
    bad = ~((corners >= 0) & (corners < points) & (corners == np.floor(corners)))
    if bad.any():
        row = int(np.searchsorted(offsets, bad.argmax(), "right")) - 1
        refuse(first_face + row, f"{corners[bad][0]:g} is no index of {points} vertices")
    coordinates = values[begins[1:first_face, None] + np.arange(3)]
    return FileMesh(coordinates, corners.astype(np.int32), offsets)
