"""PLY files: text or binary, with polygons of any lengths and lists of any types, in their order.

trimesh takes all lists of a binary file to be as long as the first, and sorts the faces of others.
"""

import contextlib
import importlib
import io
import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.formats.file_meshes import FileMesh, OfCorners, Part
from bvh.io.formats.ply_headers import CORNERS, Element, PlyHeader, header_of
from bvh.io.formats.text_lines import table, with_newlines
from bvh.runtime.caller_warnings import warn_caller

Ints = NDArray[np.int64]

# Names of texture coordinates of vertices.
COORDINATES = ("texture_u", "texture_v"), ("u", "v"), ("s", "t")
# Formats of `struct` by types of numpy, for lengths of lists.
CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
# Larger rows have no dtype.
LONGEST_ROW = 1 << 31


class _List(NamedTuple):
    """The lists of a property, one after another: list i is values[offsets[i] : offsets[i + 1]]."""

    values: NDArray[Any]
    offsets: Ints


# Columns of an element by name: arrays, or `_List`.
Columns = dict[str, Any]


def read_ply(data: bytes, resolver: Any) -> FileMesh:
    """Return the content of a PLY file; `resolver` reads the image that it may name."""
    header = header_of(data)
    rows: _Bytes | _Words
    rows = _Bytes(data, header) if header.order else _Words(data, header)
    # Number of rows, and columns; of elements of the same name, the first counts.
    elements: dict[str, tuple[int, Columns]] = {}
    for element in header.elements:
        is_empty = element.rows == 0 or not element.properties
        elements.setdefault(element.name, (element.rows, {} if is_empty else rows.columns(element)))
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
        corners, offsets = _indices(lists[named[0]], count, "face"), lists[named[0]].offsets
    uv, texture = _vertex_columns(vertex, corners, *COORDINATES), lists.get("texcoord")
    if texture is not None and np.array_equal(texture.offsets, 2 * offsets):
        # The list has two numbers for each corner of the face.
        pairs = texture.values.reshape(-1, 2).astype(np.float64)
        uv = OfCorners(pairs, np.arange(len(corners)))
    strips = elements.get("tristrips", (0, {}))[1]
    for column in strips.values():
        if isinstance(column, _List):
            more = _unrolled(_indices(column, count, "strip", least=-1), column.offsets)
            corners = np.concatenate([corners, more])
            offsets = np.concatenate([offsets, offsets[-1] + np.arange(3, len(more) + 1, 3)])
            # Strips have no texture coordinates.
            uv = None if uv is None or len(uv.ids) < len(corners) else uv
    # Strips have no colours either.
    return FileMesh(
        points, corners, offsets, (Part(material=_image(header.comments, resolver)),), uv=uv,
        normals=_vertex_columns(vertex, corners, ("nx", "ny", "nz")), vertex_colors=_colors(vertex),
        face_colors=None if strips else _colors(face),
    )  # fmt: skip


def _indices(column: _List, count: int, what: str, least: int = 0) -> NDArray[np.int32]:
    """Return lists' values as int32; raise, naming `what` ("face"), if not in least..count - 1."""
    values, offsets = column
    bad = (values < least) | (values >= count)
    if values.dtype.kind == "f":
        bad |= values != np.floor(values)
    if bad.any():
        row = int(np.searchsorted(offsets, bad.argmax(), "right")) - 1
        wrong = values[offsets[row] : offsets[row + 1]][:20].tolist()
        raise ValueError(f"{what} {row} must have indices of {count} vertices, got {wrong}")
    return values.astype(np.int32)


def _unrolled(corners: NDArray[np.int32], offsets: Ints) -> NDArray[np.int32]:
    """Return the corners of the triangles of strips, flat, three for each triangle, wound alike.

    A strip begins at each of `offsets` in `corners`, and behind each corner that is -1.
    """
    third = np.arange(2, max(len(corners), 2))
    begins = np.zeros(len(corners) + 1, np.bool_)
    begins[offsets] = True
    begins[1:] |= corners == -1
    # Where the strip of each third corner begins. In a strip, every other triangle is reversed.
    strip = np.maximum.accumulate(np.where(begins[:-1], np.arange(len(corners)), 0))[2:]
    triples = corners[third[:, None] + [-2, -1, 0]]
    valid = (strip <= third - 2) & (triples >= 0).all(axis=1)
    odd = ((third - strip) % 2 == 1)[:, None]
    return np.asarray(np.where(odd, triples[:, [1, 0, 2]], triples)[valid].reshape(-1))


def _vertex_columns(vertex: Columns, corners: Any, *names: tuple[str, ...]) -> OfCorners | None:
    """Return the first of `names` that are all columns of `vertex`, as `OfCorners`; or None."""
    for group in names:
        if all(isinstance(vertex.get(name), np.ndarray) for name in group):
            columns = [vertex[name].astype(np.float64) for name in group]
            return OfCorners(np.stack(columns, axis=1), corners)
    return None


def _colors(columns: Columns) -> NDArray[Any] | None:
    """Return red, green and blue (n, 3) of vertices or faces; None if they have no colours."""
    channels = [columns.get(name) for name in ("red", "green", "blue")]
    arrays = [column for column in channels if isinstance(column, np.ndarray)]
    return np.stack(arrays, axis=1) if len(arrays) == 3 else None


def _image(comments: list[str], resolver: Any) -> Any:
    """Return a trimesh material with the image that a comment names; None if none can be read."""
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


def _columns(element: Element, rows: "_Bytes | _Words", place: Ints) -> tuple[Columns, Ints]:
    """Return the columns of an element by name, and where each row ends; rows begin at `place`."""
    columns: Columns = {}
    for name, kind, length in element.properties:
        if length is None:
            columns[name] = rows.values(place, kind)
            place = place + rows.size(kind)
            continue
        lengths = rows.values(place, length).astype(np.int64)
        if (lengths < 0).any():
            raise ValueError(f"{element.name} {(lengths < 0).argmax()} has a length below 0")
        # As a double: sums of integers would wrap around, and pass the check.
        rows.check_size(element, int(lengths.sum(dtype=np.float64)))
        place, size = place + rows.size(length), rows.size(kind)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        begins = np.repeat(place - size * offsets[:-1], lengths)
        columns[name] = _List(rows.values(begins + size * np.arange(offsets[-1]), kind), offsets)
        place = place + size * lengths
    return columns, place


class _Bytes:
    """The rows of a binary file; a place is the index of a byte, `_at` that of the next row."""

    def __init__(self, data: bytes, header: PlyHeader) -> None:
        self._data, self._order, self._at = data, header.order, header.size

    def size(self, kind: str) -> int:
        """Return the bytes of a value of a type such as "f4"."""
        return int(kind[1])

    def check_size(self, element: Element, count: int) -> None:
        """Raise an error unless `count` values fit into the file, or the rows of an element do."""
        if count > len(self._data):
            size, rows, name = len(self._data), element.rows, element.name
            raise ValueError(f"it is cut off: {size} bytes do not hold its {rows} rows of {name}")

    def columns(self, element: Element) -> Columns:
        """Return the columns of an element by name; its rows are the next ones of the file."""
        least = sum(self.size(length or kind) for _, kind, length in element.properties)
        self.check_size(element, self._at + element.rows * least)
        # Usually lists are as long in all rows as in the first.
        begins, lengths = self._scanned(element, 1)
        stride = int(begins[1]) - self._at
        if self._at + element.rows * stride <= len(self._data) and stride < LONGEST_ROW:
            columns = self._uniform_columns(element, lengths)
            if columns is not None:
                self._at += element.rows * stride
                return columns
        begins, _ = self._scanned(element, element.rows)
        self._at = int(begins[-1])
        return _columns(element, self, begins[:-1])[0]

    def _uniform_columns(self, element: Element, lengths: dict[int, int]) -> Columns | None:
        """Return the columns of an element if its lists have `lengths`, by property; else None."""
        fields: list[Any] = []
        for k, (_, kind, length) in enumerate(element.properties):
            if length is not None:
                fields.append((f"length {k}", self._order + length))
            fields.append((f"{k}", self._order + kind, (lengths[k],) if length else ()))
        rows = np.frombuffer(self._data, fields, element.rows, self._at)
        if not all((rows[f"length {k}"] == size).all() for k, size in lengths.items()):
            return None
        columns: Columns = {}
        for k, (name, _, length) in enumerate(element.properties):
            values: Any = rows[f"{k}"]
            if length is not None:
                values = _List(values.reshape(-1), lengths[k] * np.arange(element.rows + 1))
            columns[name] = values
        return columns

    def _scanned(self, element: Element, count: int) -> tuple[Ints, dict[int, int]]:
        """Read the lengths of lists, row by row; return (begins, lengths).

        `begins` has the place of each row, then the end of the last, which is within the file;
        `lengths` those of the last row, by the numbers of their properties.
        """
        # Of each list: the number of the property, the bytes before its length since the last list,
        # the reader of the length, the bytes of a value.
        lists, gap = list[tuple[int, int, struct.Struct, int]](), 0
        for k, (_, kind, length) in enumerate(element.properties):
            if length is not None:
                lists.append((k, gap, struct.Struct(self._order + CODES[length]), self.size(kind)))
            gap = 0 if length else gap + self.size(kind)
        begins, place, lengths = np.empty(count + 1, np.int64), self._at, dict[int, int]()
        try:
            for row in range(count):
                begins[row] = place
                for k, before, reader, size in lists:
                    lengths[k] = reader.unpack_from(self._data, place + before)[0]
                    if lengths[k] < 0:
                        raise ValueError(f"a list in it has a length below 0, {lengths[k]}")
                    place += before + reader.size + size * lengths[k]
                place += gap
        except (struct.error, OverflowError):
            place = len(self._data) + 1  # a length is beyond the end of the file
        self.check_size(element, place)
        begins[count] = place
        return begins, lengths

    def values(self, place: Ints, kind: str) -> NDArray[Any]:
        """Return the value of type `kind` at each place."""
        count = len(self._data) - self.size(kind) + 1
        return np.ndarray(count, self._order + kind, self._data, 0, (1,))[place]

    def check_end(self) -> None:
        """Raise if the file has more bytes behind the last element."""
        if self._at < len(self._data):
            more = len(self._data) - self._at
            raise ValueError(f"it has {more} bytes after the last row of its header")


class _Words:
    """The rows of a text file; a place is the index of a word, and `_at` is the next line."""

    def __init__(self, data: bytes, header: PlyHeader) -> None:
        before = len(data[: header.size].splitlines())
        # All numbers, and the index of the first of each line; at the end, how many there are.
        self._numbers, self._begins = table(with_newlines(data[header.size :]), before)
        self._at = 0

    def size(self, kind: str) -> int:
        """Return the places that a value takes: one word, whatever its type `kind` is."""
        return 1

    def check_size(self, element: Element, count: int) -> None:
        """Raise an error unless the file has `count` numbers."""
        if count > len(self._numbers):
            raise ValueError(f"it is cut off: its lists have {count} numbers")

    def columns(self, element: Element) -> Columns:
        """Return the columns of an element by name; its rows are the next lines.

        Words behind the row in a line are ignored, with a warning, if all lines have as many.
        """
        count, left = element.rows, len(self._begins) - 1 - self._at
        if count > left:
            raise ValueError(f"it is cut off: it has {left} of its {count} lines of {element.name}")
        begins = self._begins[self._at : self._at + count + 1]
        self._at += count
        columns, ends = _columns(element, self, begins[:-1])
        more = begins[1:] - ends
        if more[0] < 0 or (more != more[0]).any():
            row = int(((more < 0) | (more != more[0])).argmax())
            raise ValueError(f"{element.name} {row} and its line do not end together")
        if more[0] > 0:
            words = f"{more[0]} words at the end of all lines of {element.name}"
            warn_caller(f"{words} of a PLY file are ignored: its header does not name them")
        return columns

    def values(self, place: Ints, kind: str) -> NDArray[Any]:
        """Return the values at places; raise if they are not of type `kind`."""
        # Places behind the end, which `columns` will refuse, get the last number.
        numbers = self._numbers[np.minimum(place, len(self._numbers) - 1)]
        with np.errstate(all="ignore"):
            converted = numbers.astype(kind)
            if kind[0] != "f" and (converted != numbers).any():
                wrong = numbers[(converted != numbers).argmax()]
                raise ValueError(f"{wrong} is no number of the type that its header says")
        return converted

    def check_end(self) -> None:
        """Raise if the file has more lines behind the last element."""
        more = len(self._begins) - 1 - self._at
        if more:
            raise ValueError(f"it has {more} lines after the last row of its header")
