"""Windows of a large mesh: its triangles and their groups, some at a time, from arrays or files."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import ArrayLike, NDArray

from bvh.io.formats.ply_headers import CORNERS as PLY_FACES
from bvh.io.formats.ply_headers import LONGEST, Element, header_of
from bvh.io.formats.stl_files import HEADER as STL_HEADER
from bvh.io.formats.stl_files import ROW as STL_ROW
from bvh.io.formats.stl_files import START as STL_START
from bvh.io.formats.stl_files import binary_count
from bvh.io.mesh_files import check_flattened, read_file
from bvh.io.mesh_objects import thin_of
from bvh.io.meshes import surface_of, wrong_groups
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import bit_masks, face_rows, rows

# Triangles of a window: some 30 MB with all that is made of them.
WINDOW = 1 << 16

# Names of fields in `_ply_row`; as they have spaces, no property of a PLY file has them.
LENGTH, CORNERS = "length of list", "corners of face"


class Window(NamedTuple):
    """Triangles that follow each other in one file or mesh of a source."""

    source: str  # the path, or "mesh" and its number
    number: int  # of files or meshes before this one; a file may occur twice
    corners: NDArray[np.float64]  # (n, 3, 3)
    vertex_ids: NDArray[np.int64]  # (n, 3), unique over all sources
    groups: NDArray[np.uint32] | None  # bits of triangles; None unless of a tree that has groups


# Where rows are in a file: (offset, count, layout of a row).
_Rows = tuple[int, int, np.dtype[np.void]]


def windows_of(source: Any) -> Iterator[Window]:
    """Yield the triangles of a path or mesh, or of several, in order, some at a time.

    Each path or mesh has at least one window, perhaps without triangles. Errors name it.
    """
    first_vertex = 0
    for number, item in enumerate(_items(source)):
        is_path = isinstance(item, str | os.PathLike)
        name = os.fspath(item) if is_path else f"mesh {number}"
        try:
            pieces = _file_windows(name) if is_path else _mesh_windows(item)
            vertex_count = begin = 0
            groups = item.groups if isinstance(item, BVH) else None
            for corners, vertex_ids, count in pieces:
                vertex_count, end = count, begin + len(corners)
                bits = None if groups is None else groups[begin:end]
                yield Window(name, number, corners, vertex_ids + first_vertex, bits)
                begin = end
        except (ValueError, TypeError) as error:
            # Not in the exception's own class, whose constructor may need other arguments.
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"source, {name}: {error}") from error
        first_vertex += vertex_count


def _items(source: Any) -> Iterable[Any]:
    """Return the paths and meshes in `source`, which may be a single path or mesh itself."""
    is_one = isinstance(source, str | os.PathLike) or hasattr(source, "faces")
    # A pair of arrays is one mesh; a pair of pairs is two.
    is_pair = isinstance(source, tuple | list) and len(source) == 2 and all(map(_is_table, source))
    # What is not iterable is one mesh, or raises an error when it is read.
    return [source] if is_one or is_pair or not isinstance(source, Iterable) else source


def _is_table(item: Any) -> bool:
    """Return whether an item is an array, or nested lists, of two dimensions, and no mesh."""
    try:
        return not hasattr(item, "faces") and np.ndim(item) == 2
    except ValueError:  # lists of unlike lengths
        return False


# Corners (n, 3, 3) and vertex numbers (n, 3) of the triangles of a window, and the number of all
# vertices of the file or mesh, which are counted from 0.
Piece = tuple[NDArray[np.float64], NDArray[np.int64], int]


def _mesh_windows(mesh: Any) -> Iterator[Piece]:
    """Yield windows of a mesh in memory; raise a TypeError for lines and points."""
    if thin_of(mesh) is not None:
        raise TypeError(f"{type(mesh).__name__} has no triangles")
    vertices, faces, _ = surface_of(mesh)
    points = rows("vertices", vertices)
    index = face_rows("faces", faces, len(points))
    for begin in range(0, max(len(index), 1), WINDOW):
        some = index[begin : begin + WINDOW]
        yield points[some], some.astype(np.int64), len(points)


def _file_windows(path: str) -> Iterator[Piece]:
    """Return windows of a file; unless it is a binary PLY or STL file, it is read completely."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"no such file: {path}")
    ending = Path(path).suffix.lower()
    if ending == ".stl" and (count := _stl_triangles(path)) is not None:
        return _stl_windows(path, count)
    if ending == ".ply" and (rows_of_ply := _ply_rows(path)) is not None:
        return _ply_windows(path, *rows_of_ply)
    read = read_file(path, "a mesh", triangles_only=True)
    check_flattened(read, path)
    return _mesh_windows(read)


def _stl_triangles(path: str) -> int | None:
    """Return the number of triangles of a binary STL file; None if it is text."""
    with open(path, "rb") as file:
        start = file.read(STL_START)
    try:
        return binary_count(start, os.path.getsize(path))
    except ValueError as error:
        raise ValueError(f"is damaged: {error}") from error


def _stl_windows(path: str, count: int) -> Iterator[Piece]:
    """Yield windows of a binary STL file of `count` triangles, of which no two share a vertex."""
    for begin, triangles in _row_windows(path, STL_HEADER, count, STL_ROW):
        ids = np.arange(3 * begin, 3 * (begin + len(triangles)), dtype=np.int64)
        yield triangles["corners"].astype(np.float64), ids.reshape(-1, 3), 3 * count


def _row_windows(
    path: str, offset: int, count: int, row: np.dtype[np.void]
) -> Iterator[tuple[int, NDArray[np.void]]]:
    """Yield (number of the first row, rows) for windows of `count` rows from byte `offset` on."""
    # Without rows, yield one empty window.
    for begin in range(0, max(count, 1), WINDOW):
        n = min(WINDOW, count - begin)
        result = np.fromfile(path, row, n, offset=offset + begin * row.itemsize)
        # The size of the file was checked before.
        if len(result) != n:
            raise ValueError("was changed while it was read")
        yield begin, result


def _ply_rows(path: str) -> tuple[_Rows, _Rows] | None:
    """Return where a binary PLY file has vertices and triangles: (offset, count, row) of each.

    None if the file must be read whole. To be read in windows, all elements up to the faces must
    have rows of one size; faces must be triangles, and have no other list but that of corners.
    """
    # No count of the header is trusted before the size of the file is compared with it.
    with open(path, "rb") as file:
        start = file.read(LONGEST)
    try:
        header = header_of(start)
        layouts = [_ply_row(header.order, element) for element in header.elements]
    except ValueError:
        # The reader of other files raises the right error.
        return None
    # Where the next element begins; None after one whose rows differ in size.
    end: int | None = header.size
    places: dict[str, _Rows] = {}
    for (name, count, _), row in zip(header.elements, layouts, strict=True):
        if end is None or row is None:
            end = None
        else:
            places[name] = end, count, row
            end += count * row.itemsize
    vertex, face = places.get("vertex"), places.get("face")
    is_plain = header.order and len({name for name, *_ in header.elements}) == len(layouts)
    if not is_plain or vertex is None or face is None or face[0] < vertex[0]:
        return None
    if not {"x", "y", "z"} <= set(vertex[2].names or ()) or CORNERS not in (face[2].names or ()):
        return None
    return (vertex, face) if _are_triangles(path, *face, end) else None


def _are_triangles(
    path: str, offset: int, count: int, row: np.dtype[np.void], end: int | None
) -> bool:
    """Return whether all faces of a PLY file are triangles; raise if the file is cut off.

    Faces are `count` rows from byte `offset` on, with the layout `row` if they are triangles. The
    file must then have `end` bytes, None if the size of what follows the faces is not known.
    """
    size = os.path.getsize(path)
    cut_off = ValueError(f"is cut off: {size} bytes do not hold its {count} faces")
    # Even faces without corners would need this many bytes.
    if size < offset + count * (row.itemsize - row[CORNERS].itemsize):
        raise cut_off
    complete = min(count, (size - offset) // row.itemsize)
    for _, faces in _row_windows(path, offset, complete, row):
        if (faces[LENGTH] != 3).any():
            return False
    if complete < count:
        # The file is too short for triangles, but the next face may have fewer than three corners.
        assert row.fields is not None
        kind, at = row.fields[LENGTH][:2]
        length = np.fromfile(path, kind, 1, offset=offset + complete * row.itemsize + at)
        if len(length) and length[0] != 3:
            return False
        raise cut_off
    if end is not None and size != end:
        raise ValueError(f"is damaged: it has {size} bytes, its header says {end}")
    return True


def _ply_row(order: str, element: Element) -> np.dtype[np.void] | None:
    """Return the layout of an element's rows; None if they may differ in size.

    Faces are taken to be triangles. `order` is the byte order, "<" or ">".
    """
    fields: list[tuple[str, str] | tuple[str, str, int]] = []
    # `length` is the type of a list's length; None for a property that is a number.
    for name, kind, length in element.properties:
        if length is None:
            fields.append((name, order + kind))
        elif element.name != "face" or name not in PLY_FACES or "f" in kind:
            return None
        else:
            fields += [(LENGTH, order + length), (CORNERS, order + kind, 3)]
    return np.dtype(fields)


def _ply_windows(path: str, vertex: _Rows, face: _Rows) -> Iterator[Piece]:
    """Yield windows of a binary PLY file, by where its rows of vertices and triangles are."""
    vertex_offset, vertex_count, vertex_row = vertex
    for begin, faces in _row_windows(path, *face):
        if len(faces) == 0:
            yield np.empty((0, 3, 3)), np.empty((0, 3), np.int64), vertex_count
            return
        # Not as int32, which `face_rows` returns: there may be more vertices.
        index = faces[CORNERS].astype(np.int64)
        bad = np.flatnonzero(((index < 0) | (index >= vertex_count)).any(axis=1))
        if len(bad):
            wrong = f"got {index[bad[0]].tolist()} in row {begin + bad[0]}"
            raise ValueError(f"faces must index the {vertex_count} vertices, {wrong}")
        # A new map for each window, as closing it frees the pages that were read.
        vertices = np.memmap(path, vertex_row, "r", vertex_offset, (vertex_count,))
        used, inverse = np.unique(index, return_inverse=True)
        some = vertices[used]
        points = np.stack([some[axis] for axis in "xyz"], axis=1).astype(np.float64)
        yield points[inverse.reshape(-1, 3)], index, vertex_count
        del vertices


class GroupWindows:
    """Group bits of faces, read and checked some at a time, as not all may fit into memory."""

    def __init__(self, groups: ArrayLike | str | os.PathLike[str]) -> None:
        """Check `groups`: one number for all faces, an array, or the path of a .npy file."""
        self._path = os.fspath(groups) if isinstance(groups, str | os.PathLike) else None
        # Arrays of more numbers, perhaps memory maps, are checked as they are read.
        given: Any = groups if self._path is None else self._mapped()
        if type(given) not in (np.ndarray, np.memmap) or given.ndim == 0:
            given = bit_masks("groups", given)
        if given.dtype.kind not in "iu" and given.size:
            raise TypeError(f"groups must be integers, got {given.dtype}")
        if given.ndim > 1:
            raise wrong_groups("triangle", given.shape)
        # Of one number for all faces, the shape is (). None: the file is mapped for each window.
        self._shape = given.shape
        self._array = given if self._path is None or given.ndim == 0 else None

    def rows(self, begin: int, count: int) -> NDArray[np.uint32]:
        """Return the bits of `count` faces from face `begin` on; raise if there are fewer."""
        array = self._mapped() if self._array is None else self._array
        if self._shape == ():
            return np.broadcast_to(array, count)
        if begin + count > self._shape[0]:
            raise ValueError(f"groups must be one for each triangle: there are only {len(array)}")
        return bit_masks("groups", array[begin : begin + count])

    def check_count(self, count: int) -> None:
        """Raise a ValueError unless the mesh, of `count` faces, has bits for each."""
        if self._shape not in ((), (count,)):
            raise wrong_groups(f"of {count} triangles", self._shape)

    def _mapped(self) -> NDArray[Any]:
        """Return a new memory map of the .npy file; the memory of the last one is released."""
        assert self._path is not None
        if not os.path.isfile(self._path):
            raise FileNotFoundError(f"groups: no such file: {self._path}")
        try:
            return open_memmap(self._path, mode="r")
        except Exception as error:
            # NumPy reads a header as Python's literals, and raises whatever that does.
            raise ValueError(f"groups, {self._path}: is no .npy file: {error!r}") from None
