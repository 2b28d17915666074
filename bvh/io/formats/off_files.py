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
KEYWORD = re.compile(rb"\s*((?:ST)?C?N?)(4?)(n?)OFF(\s+BINARY\b)?(?=\s)")


def read_off(data: bytes, resolver: Any) -> FileMesh:
    """Return the polygons of an OFF file; it names no others."""
    text = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), with_newlines(data))
    keyword = KEYWORD.match(text)
    if keyword is None:
        raise ValueError(f"it must begin with OFF, got {shown(data[:60])}")
    if keyword[4]:
        raise ValueError("it is a binary OFF file: only those of text are read")
    if keyword[2] or keyword[3]:
        name = keyword[0].strip().decode()
        raise ValueError(f"it is a {name} file: only those of three coordinates are read")
    text = b" " * keyword.end() + text[keyword.end() :]
    values, at = table(text)
    widths, rows = np.diff(at), len(at) - 1
    if rows == 0 or widths[0] < 2:
        raise ValueError("it has no line with the numbers of its vertices and faces")
    first = values[:2]
    if not (np.isfinite(first).all() and (first >= 0).all() and (first == np.floor(first)).all()):
        raise ValueError(f"it must have numbers of vertices and faces, got {first.tolist()}")
    points, faces = int(first[0]), int(first[1])
    if 1 + points + faces > rows:
        what = f"{rows - 1} lines do not hold its {points} vertices and {faces} faces"
        raise ValueError(f"it is cut off: {what}")
    if rows > 1 + points + faces:
        warn_caller(
            f"{rows - 1 - points - faces} lines behind the faces of an OFF file are ignored"
        )

    def refuse(row: int, what: str) -> None:
        raise ValueError(f"line {line_number(text, row)}: {what}")

    begin, end = 1 + points, 1 + points + faces
    short = np.flatnonzero(widths[1:begin] < 3)
    if len(short):
        refuse(1 + int(short[0]), "a vertex must have three coordinates")
    lengths = values[at[begin:end]]
    bad = ~((lengths >= 0) & (lengths < widths[begin:end]) & (lengths == np.floor(lengths)))
    if bad.any():
        refuse(begin + int(bad.argmax()), "a face must have a number of corners, and these")
    sizes = lengths.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(at[begin:end] + 1 - offsets[:-1], sizes) + np.arange(offsets[-1])
    corners = values[places]
    bad = ~((corners >= 0) & (corners < points) & (corners == np.floor(corners)))
    if bad.any():
        row = int(np.searchsorted(offsets, bad.argmax(), "right")) - 1
        refuse(begin + row, f"{corners[bad][0]:g} is no index of {points} vertices")
    coordinates = values[at[1:begin, None] + np.arange(3)]
    return FileMesh(coordinates, corners.astype(np.int32), offsets)
