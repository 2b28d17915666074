"""Headers of PLY files: the elements, and the types of their properties."""

import re
from typing import NamedTuple

from bvh.io.formats.text_lines import decoded
from bvh.runtime.caller_warnings import warn_caller

CORNERS = ("vertex_indices", "vertex_index")
# Types of numpy by those of headers, and byte orders by formats.
TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8", "int64": "i8",
    "uint64": "u8", "float16": "f2",
}  # fmt: skip
ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}
KEYWORDS = "comment", "obj_info", "format", "element", "property"
# A header is a few lines; what is longer is no header.
LONGEST = 1 << 16


class Property(NamedTuple):
    """A property of an element: NumPy's type of values, and that of lengths, None for no list."""

    name: str
    kind: str
    length: str | None = None


class Element(NamedTuple):
    """An element of a file, such as "vertex", with the number and the properties of its rows."""

    name: str
    rows: int
    properties: list[Property]


class PlyHeader(NamedTuple):
    """A header: byte order, "<", ">" or "" for text; elements; comments; its size in bytes."""

    order: str
    elements: list[Element]
    comments: list[str]
    size: int


def header_of(data: bytes) -> PlyHeader:
    """Return the checked header of a file, of which `data` has the first LONGEST bytes at least."""
    start = data[:LONGEST]
    magic = re.match(rb"ply[ \t]*(\r\n|\n|\r)", start)
    if magic is None:
        raise ValueError("it does not begin with a line 'ply'")
    # Lines of old files end with a carriage return alone.
    mark = b"\r" if magic[1] == b"\r" else b"\r?\n"
    end = re.search(rb"[\r\n]end_header[ \t]*%b" % mark, start)
    if end is None:
        raise ValueError("its header has no line 'end_header'")
    order, elements, comments, unknown = None, list[Element](), [], []
    # Lines of text would also end at other bytes than those of lines of bytes.
    for row in start[magic.end() : end.start()].splitlines():
        line = decoded(row)
        words = line.split()
        if not words:
            continue
        match words:
            case ["comment" | "obj_info", *_]:
                comments.append(line)
            case ["format", name, *_] if name in ORDERS:
                order = ORDERS[name]
            case ["element", name, count] if count.isdecimal() and len(count) < 40:
                elements.append(Element(name, int(count), []))
            case ["property", "list", length, kind, name] if (
                elements and length in TYPES and kind in TYPES and "f" not in TYPES[length]
            ):
                elements[-1].properties.append(Property(name, TYPES[kind], TYPES[length]))
            case ["property", kind, name] if elements and kind in TYPES:
                elements[-1].properties.append(Property(name, TYPES[kind]))
            case [word, *_] if not (elements or word in KEYWORDS):
                # Some programs write comments without the keyword.
                unknown.append(line[:60])
            case _:
                raise ValueError(f"its header has a line {line[:60]!r}")
    if order is None:
        raise ValueError("its header has no format")
    if unknown:
        warn_caller(f"a line in the header of a PLY file is ignored: {unknown[0]!r}")
    return PlyHeader(order, elements, comments, end.end())
