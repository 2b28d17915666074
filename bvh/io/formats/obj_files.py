"""OBJ files: faces and vertices in the order of the file, parts by objects and groups.

trimesh counts negative indices from the end of the file, sorts faces by material, and drops the
names of groups and vertices without faces.
"""

import contextlib
import importlib
import itertools
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.formats.file_meshes import FileMesh, OfCorners, Part
from bvh.io.formats.text_lines import (
    GAP,
    Lines,
    first_without_numbers,
    line_number,
    numbers,
    pieces_of,
    shown,
    with_newlines,
)
from bvh.runtime.arguments import MAX_PRIMITIVES
from bvh.runtime.caller_warnings import warn_caller

# Least and most numbers in a line.
WIDTHS = {b"v": (3, 8), b"vt": (1, 3), b"vn": (3, 3)}
# How many of these are used.
SIZES = {b"v": 3, b"vt": 2, b"vn": 3}
# Lines of elements other than polygons.
OTHERS = {b"l", b"p", b"curv", b"curv2", b"surf", b"fo", b"call", b"csh"}
# Lines without meaning for polygons, or about the elements above.
IGNORED = set(
    b"s vp cstype deg bmat step parm trim hole scrv sp end con mg bevel c_interp d_interp lod "
    b"maplib usemap shadow_obj trace_obj ctech stech".split()
)


class _State:
    """Content of a file as far as it has been read."""

    def __init__(self) -> None:
        self.rows: dict[bytes, list[NDArray[np.float64]]] = {word: [] for word in WIDTHS}
        self.counts = dict.fromkeys((*WIDTHS, b"f"), 0)
        self.colors: list[NDArray[np.float64]] = []
        # Corners of faces in each piece: rows of vertices, textures, normals; -1 for none. And the
        # number of corners of each face.
        self.corners: list[NDArray[np.int32]] = []
        self.lengths: list[NDArray[np.int64]] = []
        # Lines with names: the number of the next face, the keyword and the name.
        self.names: list[tuple[int, bytes, str]] = []
        self.libraries: list[str] = []
        self.others: set[str] = set()
        self.unknown: set[str] = set()


def read_obj(data: bytes, resolver: Any) -> FileMesh:
    """Return the polygons of an OBJ file; `resolver` has the files that it names."""
    original = with_newlines(data)
    text = _joined(original)
    state = _State()
    try:
        for lines in pieces_of(text):
            _read_piece(_without_remarks(lines), state)
        mesh = _mesh_of(state, resolver)
    except _BadLine as error:
        number = line_number(text, error.row, error.word + GAP, original)
        raise ValueError(f"line {number}: {error}") from None
    for words, what in ((state.others, "elements"), (state.unknown, "lines of unknown kinds")):
        if words and len(mesh.offsets) > 1:
            warn_caller(f"{what} of an OBJ file are left out: {', '.join(sorted(words))}")
    if state.others and len(mesh.offsets) == 1:
        raise ValueError(f"it holds no faces, but elements {', '.join(sorted(state.others))}")
    return mesh


class _BadLine(ValueError):
    """An error in a line, given by its row among those that begin with a word."""

    def __init__(self, word: bytes, row: int, what: str) -> None:
        super().__init__(what)
        self.word, self.row = word, row


def _joined(text: bytes) -> bytes:
    """Join lines that end with a backslash; white space keeps the length of the text."""
    if b"\\" not in text:
        return text
    joined = bytearray(text)
    for join in re.finditer(rb"\\\r?\n", text):
        begin, end = join.span()
        line = joined[joined.rfind(b"\n", 0, begin) + 1 : begin].lstrip()
        # Comments and names end where their line does.
        if re.match(rb"(v|vt|vn|f|l|p)\s", line):
            joined[begin:end] = b"\v" * (end - begin)
    return with_newlines(bytes(joined))


def _without_remarks(lines: Lines) -> Lines:
    """Return lines of numbers without what is behind a number sign."""
    signs = np.flatnonzero(lines.data == ord("#"))
    at = np.searchsorted(lines.begins, signs, "right") - 1
    inside = (at >= 0) & (lines.begins[at] < signs)
    inside &= np.isin(lines.data[lines.begins[at]], list(b"fv"))
    if not inside.any():
        return lines
    data = lines.data.copy()
    for sign, end in zip(signs[inside].tolist(), lines.ends[at[inside]].tolist(), strict=True):
        data[sign:end] = 32
    return next(pieces_of(data[:-16].tobytes()))


def _read_piece(lines: Lines, state: _State) -> None:
    # Comments and smoothing groups, often numerous, are removed before the loop over other lines.
    # `since` has how many vertices and so on there are up to each line.
    is_known = lines.start_with(b"s") | (lines.data[lines.begins] == ord("#"))
    since = {}
    for word in WIDTHS:
        mask = lines.start_with(word)
        is_known |= mask
        since[word] = np.cumsum(mask) + state.counts[word]
        if mask.any():
            _read_rows(lines, mask, word, state)
    mask = lines.start_with(b"f")
    ends = np.cumsum(mask)
    for line in np.flatnonzero(~(is_known | mask)).tolist():
        content = lines.data[lines.begins[line] : lines.ends[line]].tobytes()
        word, *rest = content.split(None, 1)
        name = _text(rest[0]) if rest else ""
        if word == b"mtllib":
            state.libraries.append(name)
        elif word in (b"o", b"g", b"usemtl"):
            state.names.append((state.counts[b"f"] + int(ends[line]), word, name))
        elif word in OTHERS:
            state.others.add(_text(word))
        elif word not in IGNORED and len(state.unknown) < 5:
            state.unknown.add(shown(word))
    if mask.any():
        since = {word: counts[mask] for word, counts in since.items()}
        _read_faces(lines, mask, state, since)
        state.counts[b"f"] += int(ends[-1])


def _text(name: bytes) -> str:
    """Return a name, which is in UTF-8 or Latin-1."""
    try:
        return name.decode().strip()
    except UnicodeDecodeError:
        return name.decode("latin-1").strip()


def _read_rows(lines: Lines, mask: NDArray[np.bool_], word: bytes, state: _State) -> None:
    """Read vertices, their colours, normals or texture coordinates."""
    counts, before = lines.counts[mask] - 1, state.counts[word]
    least, most = WIDTHS[word]
    bad = np.flatnonzero((counts < least) | (counts > most))
    if len(bad):
        expected = f"{least} to {most}" if least < most else f"{least}"
        what = f"{word.decode()} must have {expected} numbers, got {counts[bad[0]]}"
        raise _BadLine(word, before + int(bad[0]), what)
    text = lines.text(mask, len(word))
    values = _numbers(word, before, text, np.float64, int(counts.sum()))
    begins = np.cumsum(counts) - counts
    rows = np.zeros((len(counts), SIZES[word]))
    for k in range(SIZES[word]):
        given = counts > k
        rows[given, k] = values[begins[given] + k]
    state.rows[word].append(rows)
    if word == b"v":
        colors = np.full((len(counts), 3), np.nan)
        painted = counts >= 6
        colors[painted] = values[begins[painted][:, None] + np.arange(3, 6)]
        state.colors.append(colors)
    state.counts[word] += len(counts)


def _numbers(
    word: bytes, before: int, text: bytes, kind: type[np.generic], count: int
) -> NDArray[Any]:
    """Return the numbers in lines that begin with a word; `before` counts earlier such lines."""
    if word == b"f":
        text = text.replace(b"/", b" ")
    values = numbers(text, kind, count)
    if values is not None:
        return values
    row, line = first_without_numbers(text, kind)
    raise _BadLine(word, before + row, f"{shown(line)} are not numbers")


def _read_faces(lines: Lines, mask: Any, state: _State, since: dict[bytes, Any]) -> None:
    """Read faces; `since` has how many vertices and so on are before each."""
    lengths, before = lines.counts[mask] - 1, state.counts[b"f"]
    text = lines.text(mask, 1)
    total = int(lengths.sum())
    line_of = np.repeat(np.arange(len(lengths)), lengths)
    if b"/" not in text:
        slots = _numbers(b"f", before, text, np.int64, total).reshape(-1, 1)
        given = np.ones((total, 1), np.bool_)
    else:
        slots, given = _slots(text, total, line_of, before)
    corners = np.full((total, 3), -1, np.int32)
    for k, word in zip(range(slots.shape[1]), (b"v", b"vt", b"vn"), strict=False):
        ids, has = slots[:, k], given[:, k]
        count = since[word][line_of]
        rows = np.where(ids < 0, count + ids, ids - 1)
        bad = has & ((ids == 0) | (rows < 0) | (rows >= MAX_PRIMITIVES))
        if bad.any():
            at = int(bad.argmax())
            what = f"{ids[at]} is no index of {word.decode()}: {count[at]} are before"
            raise _BadLine(b"f", before + int(line_of[at]), what)
        corners[has, k] = rows[has]
    state.corners.append(corners)
    state.lengths.append(lengths)


def _slots(text: bytes, total: int, line_of: Any, before: int) -> tuple[Any, Any]:
    """Return the numbers of corners such as 1/2/3 and 1//3, and where there are some."""
    data = np.frombuffer(b" " + text + b" ", np.uint8)
    is_slash, is_space = data == ord("/"), data <= 32
    starts = np.flatnonzero(~is_space[1:] & is_space[:-1]) + 1
    slashes = np.cumsum(is_slash, dtype=np.int32)
    per_corner = np.diff(slashes[starts], append=slashes[-1])
    bad = is_slash[starts] | (per_corner > 2)
    if bad.any():
        first = int(bad.argmax())
        word = data[starts[first] :].tobytes().split(None, 1)[0]
        raise _BadLine(b"f", before + int(line_of[first]), f"{shown(word)} is no corner of a face")
    begins = ~(is_slash | is_space)
    begins[1:] &= (is_slash | is_space)[:-1]
    at = np.flatnonzero(begins)
    values = _numbers(b"f", before, text, np.int64, len(at))
    corner_of = np.cumsum(is_space[:-1] & ~is_space[1:], dtype=np.int32)[at - 1] - 1
    slot_of = slashes[at] - slashes[starts[corner_of]]
    slots, given = np.zeros((total, 3), np.int64), np.zeros((total, 3), np.bool_)
    slots[corner_of, slot_of], given[corner_of, slot_of] = values, True
    return slots, given


def _mesh_of(state: _State, resolver: Any) -> FileMesh:
    """Return the mesh of all that has been read, after a check of its indices."""
    points, uv, normals = (
        np.concatenate([np.empty((0, size)), *state.rows.pop(word)]) for word, size in SIZES.items()
    )
    lengths = np.concatenate([np.empty(0, np.int64), *state.lengths])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    columns = []
    for k, (word, rows) in enumerate(zip(SIZES, (points, uv, normals), strict=True)):
        given = [corners[:, k] for corners in state.corners]
        column = np.concatenate([np.empty(0, np.int32), *given])
        if column.max(initial=-1) >= len(rows):
            at = int((column >= len(rows)).argmax())
            what = f"{column[at] + 1} is no index of {word.decode()}: the file has {len(rows)}"
            raise _BadLine(b"f", int(np.searchsorted(offsets, at, "right")) - 1, what)
        columns.append(column)
    colors = np.concatenate([np.empty((0, 3)), *state.colors])
    has_colors = not np.isnan(colors).all()
    if has_colors and np.nanmax(colors) > 1.0:
        # Some programs write bytes.
        colors /= 255.0
    materials = _materials(state.libraries, resolver)
    parts, part_ids, face_colors = _parts_of(state.names, materials, len(lengths))
    return FileMesh(
        points, columns[0], offsets, parts, part_ids,
        OfCorners(uv, columns[1]) if (columns[1] >= 0).any() else None,
        OfCorners(normals, columns[2]) if (columns[2] >= 0).any() else None,
        np.clip(colors, 0.0, 1.0) if has_colors else None, face_colors,
    )  # fmt: skip


def _materials(libraries: list[str], resolver: Any) -> dict[str, Any]:
    """Return the materials of the files that can be read, by name."""
    if not libraries:
        # trimesh takes long to import.
        return {}
    parse_mtl: Any = importlib.import_module("trimesh.exchange.obj").parse_mtl
    material: Any = importlib.import_module("trimesh.visual.material").SimpleMaterial
    named: dict[str, Any] = {}
    for given in dict.fromkeys(libraries):
        # One name with spaces, or several.
        for names in ([given], given.split()):
            # Pictures are drawn without what is missing or damaged.
            with contextlib.suppress(Exception):
                read = [parse_mtl(resolver.get(name), resolver=resolver) for name in names]
                named |= {name: material(**look) for looks in read for name, look in looks.items()}
                break
    return named


def _parts_of(
    names: list[tuple[int, bytes, str]], materials: dict[str, Any], count: int
) -> tuple[tuple[Part, ...], NDArray[np.int64], NDArray[np.uint8] | None]:
    """Return the parts of a file, that of each of its faces, and colours of faces."""
    # A part is an object, or a group where it has several or there is none. Faces with an image
    # are a part of their own, and those without a material; others have their material's colour.
    begins = [*(row for row, _, _ in names), count]
    runs: list[tuple[int, int, str | None, str | None, str | None]] = []
    groups_of: dict[str, set[str | None]] = {}
    owner = group = look = None
    for (begin, end), word, name in zip(
        itertools.pairwise([0, *begins]), (b"", *(word for _, word, _ in names)),
        ("", *(name for _, _, name in names)), strict=True,
    ):  # fmt: skip
        if word == b"o":
            owner, group = name or None, None
        elif word == b"g":
            group = name or None
        elif word == b"usemtl":
            look = name if name in materials else None
        if begin < end:
            runs.append((begin, end, owner, group, look))
            groups_of.setdefault(owner or "", set()).add(group)
    keys: dict[tuple[str | None, str | None, str | None], int] = {}
    used: list[set[str]] = []
    part_ids, colors = np.zeros(count, np.int64), np.zeros((count, 4), np.uint8)
    for begin, end, owner, group, look in runs:
        if owner is not None and len(groups_of[owner]) == 1:
            group = None
        # Materials without an image are one key, "".
        plain = look is not None and materials[look].image is None
        part = keys.setdefault((owner, group, "" if plain else look), len(keys))
        part_ids[begin:end] = part
        if part == len(used):
            used.append(set())
        if look is not None:
            used[part].add(look)
            colors[begin:end] = materials[look].diffuse
    parts = [
        Part(group or owner, materials[min(looks)] if len(looks) == 1 else None, len(looks) > 1)
        for (owner, group, _), looks in zip(keys, used, strict=True)
    ]
    is_painted = any(part.painted for part in parts)
    return tuple(parts) or (Part(),), part_ids, colors if is_painted else None
