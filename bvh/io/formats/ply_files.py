"""PLY files: text or binary, with polygons of any lengths and lists of any types, in their order.

trimesh takes all lists of a binary file to be as long as the first, and sorts the faces of others.
"""

import contextlib
import importlib
import io
import re
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.formats.file_meshes import FileMesh, OfCorners, Part
from bvh.io.formats.text_lines import table, with_newlines

Ints = NDArray[np.int64]

CORNERS = ("vertex_indices", "vertex_index")
COORDINATES = ("texture_u", "texture_v"), ("u", "v"), ("s", "t")
# A length of a list as `struct` reads it.
CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}

# Types of numpy by those of headers, and byte orders by formats.
TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8", "int64": "i8",
    "uint64": "u8", "float16": "f2",
}  # fmt: skip
ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">", "ascii": ""}
# A header is a few lines; what is longer is no header.
LONGEST = 1 << 16


class Property(NamedTuple):
    """A property of an element: types as those of numpy; of a list also that of its length."""

    name: str
    kind: str
    length: str | None = None


class Element(NamedTuple):
    """An element of a file, and the number of its rows."""

    name: str
    rows: int
    properties: list[Property]


class PlyHeader(NamedTuple):
    """The header of a file: its byte order, "" for text, elements, comments, and its size."""

    order: str
    elements: list[Element]
    comments: list[str]
    size: int


class _List(NamedTuple):
    """The lists of a property, one behind another, and where each begins."""

    values: NDArray[Any]
    offsets: Ints


# Columns of an element by name: arrays, or `_List`.
Columns = dict[str, Any]


def read_ply(data: bytes, resolver: Any) -> FileMesh:
    """Return the polygons of a PLY file; `resolver` has the files that it names."""
    header = header_of(data)
    rows: _Bytes | _Words
    rows = _Bytes(data, header) if header.order else _Words(data, header)
    elements: dict[str, tuple[int, Columns]] = {}
    for element in header.elements:
        columns = _columns(element, rows)
        elements.setdefault(element.name, (element.rows, columns))
    rows.check_end()
    count, vertex = elements.get("vertex", (0, {}))
    missing = [axis for axis in "xyz" if not isinstance(vertex.get(axis), np.ndarray)]
    if missing and count:
        raise ValueError(f"its vertices have no {', '.join(missing)}")
    points = np.empty((count, 3))
    for k, axis in enumerate("xyz" if count else ""):
        points[:, k] = vertex[axis]
    face_count, face = elements.get("face", (0, {}))
    lists = {name: column for name, column in face.items() if isinstance(column, _List)}
    named = [name for name in CORNERS if name in lists] or (list(lists) if len(lists) == 1 else [])
    if face_count and not named:
        raise ValueError(f"its faces have no list {' or '.join(CORNERS)}")
    corners, offsets = np.empty(0, np.int32), np.zeros(1, np.int64)
    if face_count:
        given = lists[named[0]]
        corners, offsets = _indices(given.values, given.offsets, count, "face"), given.offsets
    uv, texture = _of_vertices(vertex, corners, *COORDINATES), lists.get("texcoord")
    if texture is not None and np.array_equal(texture.offsets, 2 * offsets):
        # A list of a pair for each corner.
        pairs = texture.values.reshape(-1, 2).astype(np.float64)
        uv = OfCorners(pairs, np.arange(len(corners)))
    strips = elements.get("tristrips", (0, {}))[1]
    for column in strips.values():
        if isinstance(column, _List):
            more = _unrolled(_indices(column.values, column.offsets, count, "strip", -1), column)
            corners = np.concatenate([corners, more])
            ends = offsets[-1] + np.arange(3, len(more) + 1, 3)
            offsets = np.concatenate([offsets, ends])
            uv = None if uv is None or len(uv.ids) < len(corners) else uv
    normals = _of_vertices(vertex, corners, ("nx", "ny", "nz"))
    return FileMesh(
        points, corners, offsets, (Part(material=_image(header.comments, resolver)),), None, uv,
        normals, _colors(vertex), _colors(face) if not strips else None,
    )  # fmt: skip


def header_of(data: bytes) -> PlyHeader:
    """Return the checked header of a file that begins with `data`, and may end too early."""
    start = data[:LONGEST]
    magic = re.match(rb"ply[ \t]*(\r\n|\n|\r)", start)
    if magic is None:
        raise ValueError("it does not begin with a line 'ply'")
    # Lines of old files end with a carriage return alone.
    mark = b"\r" if magic[1] == b"\r" else b"\r?\n"
    end = re.search(rb"[\r\n]end_header[ \t]*%b" % mark, start)
    if end is None:
        raise ValueError("its header has no line 'end_header'")
    order, elements, comments = None, list[Element](), []
    for line in start[magic.end() : end.start()].decode("latin-1").splitlines():
        words = line.split()
        if not words:
            continue
        match words:
            case ["comment" | "obj_info", *_]:
                comments.append(line.strip())
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
            case _:
                raise ValueError(f"its header has a line {line.strip()[:60]!r}")
    if order is None:
        raise ValueError("its header has no format")
    return PlyHeader(order, elements, comments, end.end())


def _indices(values: NDArray[Any], offsets: Ints, count: int, what: str, least: int = 0) -> Any:
    """Return vertex indices as int32, or raise, naming the row, unless in least..count - 1."""
    bad = (values < least) | (values >= count)
    if values.dtype.kind == "f":
        bad |= values != np.floor(values)
    if bad.any():
        at = int(bad.argmax())
        row = int(np.searchsorted(offsets, at, "right")) - 1
        wrong = values[offsets[row] : offsets[row + 1]][:20].tolist()
        raise ValueError(f"{what} {row} must have indices of {count} vertices, got {wrong}")
    return values.astype(np.int32)


def _unrolled(corners: NDArray[np.int32], column: _List) -> NDArray[np.int32]:
    """Return the triangles of the strips of a column, which also end where an index is -1."""
    at = np.arange(max(len(corners) - 2, 0))
    begins = np.zeros(len(corners) + 1, np.bool_)
    begins[column.offsets] = True
    begins[1:] |= corners == -1
    # Where the strip of each corner begins.
    first = np.maximum.accumulate(np.where(begins[:-1], np.arange(len(corners)), 0))
    triples = corners[at[:, None] + np.arange(3)]
    valid = (first[2:] <= at) & (triples >= 0).all(axis=1)
    odd = ((at - first[2:]) % 2 == 1)[:, None]
    return np.asarray(np.where(odd, triples[:, [1, 0, 2]], triples)[valid].reshape(-1))


def _of_vertices(vertex: Columns, corners: Any, *names: tuple[str, ...]) -> OfCorners | None:
    """Return the first of some groups of columns of which vertices have all."""
    for some in names:
        if all(isinstance(vertex.get(name), np.ndarray) for name in some):
            columns = [vertex[name].astype(np.float64) for name in some]
            return OfCorners(np.stack(columns, axis=1), corners)
    return None


def _colors(columns: Columns) -> NDArray[Any] | None:
    """Return red, green and blue of vertices or faces."""
    channels = [columns.get(name) for name in ("red", "green", "blue")]
    arrays = [column for column in channels if isinstance(column, np.ndarray)]
    return np.stack(arrays, axis=1) if len(arrays) == 3 else None


def _image(comments: list[str], resolver: Any) -> Any:
    """Return the material of the image that a comment names."""
    for comment in comments:
        at = comment.lower().find("texturefile")
        if at >= 0:
            # Pictures are drawn without what is missing or damaged.
            with contextlib.suppress(Exception):
                data = resolver.get(comment[at + len("texturefile") :].strip())
                image = importlib.import_module("PIL.Image").open(io.BytesIO(data))
                look = importlib.import_module("trimesh.visual.material")
                return look.SimpleMaterial(image=image)
    return None


def _columns(element: Element, rows: "_Bytes | _Words") -> Columns:
    """Return the columns of an element, whose rows are next."""
    if element.rows == 0 or not element.properties:
        return {}
    # `place` is where the next property is in each row. `stride` is the size of rows in a binary
    # file, or None if they differ.
    place, stride = rows.begins(element)
    columns: Columns = {}
    for name, kind, length in element.properties:
        if length is None:
            columns[name] = rows.values(place, kind, stride)
        else:
            lengths = rows.values(place, length, stride).astype(np.int64)
            if (lengths < 0).any():
                raise ValueError(f"{element.name} {(lengths < 0).argmax()} has a length below 0")
            place = place + rows.size(length)
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            columns[name] = _List(rows.lists(place, lengths, kind, stride), offsets)
        place = place + rows.size(kind) * (1 if length is None else lengths)
    rows.check(element, place)
    return columns


class _Bytes:
    """The rows of a binary file; places are those of bytes."""

    def __init__(self, data: bytes, header: PlyHeader) -> None:
        self._data, self._order, self._at = data, header.order, header.size

    def size(self, kind: str) -> int:
        return int(kind[1])

    def begins(self, element: Element) -> tuple[Ints, int | None]:
        """Return where each row begins, and the size of all, if that is one."""
        count, properties = element.rows, element.properties
        lists = [k for k, one in enumerate(properties) if one.length is not None]
        # The least bytes of a row.
        fixed = sum(self.size(one.length or one.kind) for one in properties)
        if count * fixed > len(self._data) - self._at:
            self._refuse(element)
        # Usually all lists are as long as those of the first row: then so are the rows.
        after, ends = self._row(properties, self._at)
        stride = after - self._at
        if count * stride <= len(self._data) - self._at:
            places = [(ends[k], properties[k].length or "") for k in lists]
            columns = [np.ndarray(count, self._order + kind, self._data, place, (stride,))
                       for place, kind in places]  # fmt: skip
            if all((column == column[0]).all() for column in columns):
                return self._at + stride * np.arange(count), stride
        # Otherwise they are visited one by one, which is faster if they have a single list.
        places_of_rows, place = np.empty(count, np.int64), self._at
        if len(lists) == 1:
            unpack = self._length_at(properties[lists[0]])
            before, width = ends[lists[0]] - self._at, self.size(properties[lists[0]].kind)
            last = len(self._data) - fixed
            for row in range(count):
                places_of_rows[row] = place
                if not self._at <= place <= last:
                    self._refuse(element)
                place += fixed + width * unpack(self._data, place + before)[0]
        else:
            for row in range(count):
                places_of_rows[row] = place
                place, _ = self._row(properties, place)
        if place > len(self._data):
            self._refuse(element)
        return places_of_rows, None

    def _length_at(self, one: Property) -> Any:
        """Return the function of `struct` that reads the length of a list."""
        return struct.Struct(self._order + CODES[one.length or ""]).unpack_from

    def _row(self, properties: list[Property], place: int) -> tuple[int, dict[int, int]]:
        """Return where a row ends, and where the lengths of its lists are."""
        lengths: dict[int, int] = {}
        for k, one in enumerate(properties):
            if one.length is None:
                place += self.size(one.kind)
                continue
            lengths[k] = place
            if not 0 <= place <= len(self._data) - self.size(one.length):
                raise ValueError(f"it is cut off: {len(self._data)} bytes do not hold its rows")
            count = self._length_at(one)(self._data, place)[0]
            if count < 0:
                raise ValueError(f"a list in it has a length below 0, {count}")
            place += self.size(one.length) + self.size(one.kind) * count
        return place, lengths

    def _refuse(self, element: Element) -> None:
        size, count, name = len(self._data), element.rows, element.name
        raise ValueError(f"it is cut off: {size} bytes do not hold its {count} rows of {name}")

    def values(self, place: Ints, kind: str, stride: int | None) -> NDArray[Any]:
        width, form = self.size(kind), self._order + kind
        if stride is not None:
            return np.ndarray(len(place), form, self._data, int(place[0]), (stride,))
        content = np.frombuffer(self._data, np.uint8)
        return np.asarray(content[place[:, None] + np.arange(width)].view(form)[:, 0])

    def lists(self, place: Ints, lengths: Ints, kind: str, stride: int | None) -> NDArray[Any]:
        """Return values from each place on, as many as its length, one list after another."""
        width, form = self.size(kind), self._order + kind
        if stride is not None:
            shape = len(place), int(lengths[0])
            strides = stride, width
            return np.ndarray(shape, form, self._data, int(place[0]), strides).reshape(-1)
        begin, end = int(place[0]), int(place[-1] + width * lengths[-1])
        # 1 where a list begins, -1 behind it: between two lists is at least a length.
        steps = np.zeros(end - begin + 1, np.int8)
        filled = lengths > 0
        steps[place[filled] - begin] = 1
        steps[(place + width * lengths)[filled] - begin] = -1
        inside = np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)
        content = np.frombuffer(self._data, np.uint8, end - begin, begin)
        return np.asarray(content[inside].view(form))

    def check(self, element: Element, place: Ints) -> None:
        """Advance past an element whose rows end at `place`, which must be in the file."""
        self._at = int(place[-1])
        if self._at > len(self._data):
            self._refuse(element)

    def check_end(self) -> None:
        if self._at < len(self._data):
            more = len(self._data) - self._at
            raise ValueError(f"it has {more} bytes after the last row of its header")


class _Words:
    """The rows of a text file, one a line; a place is the index of a word."""

    def __init__(self, data: bytes, header: PlyHeader) -> None:
        before = len(data[: header.size].splitlines())
        # Where each line begins, and where the last one ends.
        self._numbers, self._begins = table(with_newlines(data[header.size :]), before)
        self._at = 0

    def size(self, kind: str) -> int:
        return 1

    def begins(self, element: Element) -> tuple[Ints, int | None]:
        """Return where each row begins, and None: lines have no stride."""
        count, left = element.rows, len(self._begins) - 1 - self._at
        if count > left:
            raise ValueError(f"it is cut off: it has {left} of its {count} lines of {element.name}")
        return self._begins[self._at : self._at + count], None

    def values(self, place: Ints, kind: str, stride: int | None) -> NDArray[Any]:
        """Return the values at places; those behind the end, which `check` finds, get the last."""
        return _as_type(self._numbers[np.minimum(place, len(self._numbers) - 1)], kind)

    def lists(self, place: Ints, lengths: Ints, kind: str, stride: int | None) -> NDArray[Any]:
        """Return values from each place on, as many as its length, one list after another."""
        total = int(lengths.sum())
        if total > len(self._numbers):
            raise ValueError(f"it is cut off: its lists have {total} numbers")
        at = np.repeat(place - np.cumsum(lengths) + lengths, lengths) + np.arange(total)
        return self.values(at, kind, None)

    def check(self, element: Element, place: Ints) -> None:
        """Advance past an element whose rows end at `place`, which must be ends of lines."""
        ends = self._begins[self._at + 1 : self._at + 1 + len(place)]
        self._at += len(place)
        if not np.array_equal(ends, place):
            row = int((ends != place).argmax())
            raise ValueError(f"{element.name} {row} and its line do not end together")

    def check_end(self) -> None:
        more = len(self._begins) - 1 - self._at
        if more:
            raise ValueError(f"it has {more} lines after the last row of its header")


def _as_type(values: NDArray[np.float64], kind: str) -> NDArray[Any]:
    """Return numbers of a text as a type that the header says."""
    with np.errstate(all="ignore"):
        converted = values.astype(kind)
        if kind[0] != "f" and (converted != values).any():
            wrong = values[(converted != values).argmax()]
            raise ValueError(f"{wrong} is no number of the type that its header says")
    return converted
