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

from bvh.io.formats import text_lines
from bvh.io.formats.file_meshes import FileMesh, OfCorners, Part
from bvh.io.formats.text_lines import Ints, Lines, Mask
from bvh.runtime.arguments import MAX_PRIMITIVES
from bvh.runtime.caller_warnings import warn_caller

# Least and most numbers in a line.
WIDTHS = {b"v": (3, 8), b"vt": (1, 3), b"vn": (3, 3)}
# How many of these are used.
SIZES = {b"v": 3, b"vt": 2, b"vn": 3}
# An index that no row has.
UNKNOWN = np.iinfo(np.int32).max
# Lines of elements other than polygons.
OTHERS = {b"l", b"p", b"curv", b"curv2", b"surf", b"fo", b"call", b"csh"}
# Lines without meaning for polygons, or about the elements above.
IGNORED = set(
    b"s vp cstype deg bmat step parm trim hole scrv sp end con mg bevel c_interp d_interp lod "
    b"maplib usemap shadow_obj trace_obj ctech stech".split()
)


class _State:
    """Content of a file as far as it has been read, in pieces of its text."""

    def __init__(self) -> None:
        # Numbers of the lines of each keyword, and how many of these lines there were so far.
        self.rows: dict[bytes, list[NDArray[np.float64]]] = {word: [] for word in WIDTHS}
        self.counts = dict.fromkeys((*WIDTHS, b"f"), 0)
        self.colors: list[NDArray[np.float64]] = []  # of vertices (n, 3); NaN for none
        # Corners of faces: rows of vertices, textures, normals; -1 for none. And their numbers.
        self.corners: list[NDArray[np.int32]] = []
        self.lengths: list[Ints] = []
        # Lines with names: the number of the next face, the keyword and the name.
        self.names: list[tuple[int, bytes, str]] = []
        self.libraries: list[str] = []  # names of files of materials
        self.others, self.unknown = set[str](), set[str]()  # keywords


def read_obj(data: bytes, resolver: Any) -> FileMesh:
    """Return the content of an OBJ file; `resolver` reads the files of materials that it names."""
    original = text_lines.with_newlines(data)
    # Blank out line ends behind a backslash, as such a line goes on in the next one, then comments
    # behind numbers. Comments that begin a line, often numerous, are skipped later.
    text = _blanked(_blanked(original, rb"\\\r?\n"), rb"#(?<!\n#)[^\n]*")
    state = _State()
    try:
        for lines in text_lines.pieces_of(text):
            _read_piece(lines, state)
        mesh = _mesh_of(state, resolver)
    except _BadLine as error:
        # Find the line by its index among the lines that begin with its keyword and a gap.
        number = text_lines.line_number(text, error.row, error.word + text_lines.GAP, original)
        raise ValueError(f"line {number}: {error}") from None
    # There is one more offset than faces, so a file with one offset has none.
    for words, what in ((state.others, "elements"), (state.unknown, "lines of unknown kinds")):
        if words and len(mesh.offsets) > 1:
            warn_caller(f"{what} of an OBJ file are left out: {', '.join(sorted(words))}")
    if state.others and len(mesh.offsets) == 1:
        raise ValueError(f"it holds no faces, but elements {', '.join(sorted(state.others))}")
    return mesh


class _BadLine(ValueError):
    """An error `what` in a line: number `row`, from 0, of those that begin with `word`."""

    def __init__(self, word: bytes, row: int, what: str) -> None:
        super().__init__(what)
        self.word, self.row = word, row


def _blanked(text: bytes, pattern: bytes) -> bytes:
    """Replace matches of a pattern in lines of vertices or faces by as many bytes of white space.

    The text keeps its length, as errors find the numbers of lines by places in it.
    """
    if re.search(pattern, text) is None:
        return text
    blanked, of_numbers = bytearray(text), re.compile(rb"\s*(v|vt|vn|f|l|p)(\s|$)")
    # Where the line of a match begins, and where the last match did: no line is read twice.
    line = last = 0
    for match in re.finditer(pattern, text):
        begin, end = match.span()
        line, last = blanked.rfind(b"\n", last, begin) + 1 or line, begin
        # In other lines, of comments or names, a number sign or backslash is like any character.
        if of_numbers.match(blanked, line, begin):
            # White space that ends no line.
            blanked[begin:end] = b"\v" * (end - begin)
    return text_lines.with_newlines(bytes(blanked))


def _read_piece(lines: Lines, state: _State) -> None:
    """Add the lines of the next piece of a file to `state`."""
    # Comments and smoothing groups, often numerous, are excluded from the loop over other lines.
    is_known = lines.start_with(b"s") | (lines.data[lines.begins] == ord("#"))
    # For v, vt and vn: how many lines of the file up to each line begin with the keyword.
    counts = {}
    for word in WIDTHS:
        mask = lines.start_with(word)
        is_known |= mask
        counts[word] = np.cumsum(mask) + state.counts[word]
        if mask.any():
            _read_rows(lines, mask, word, state)
    is_face = lines.start_with(b"f")
    faces = state.counts[b"f"] + np.cumsum(is_face)
    for line in np.flatnonzero(~(is_known | is_face)).tolist():
        content = lines.data[lines.begins[line] : lines.ends[line]].tobytes()
        word, *rest = content.split(None, 1)
        name = text_lines.decoded(rest[0]) if rest else ""
        if word == b"mtllib":
            state.libraries.append(name)
        elif word in (b"o", b"g", b"usemtl"):
            state.names.append((int(faces[line]), word, name))
        elif word in OTHERS:
            state.others.add(text_lines.decoded(word))
        # A warning names five unknown words at most.
        elif word not in IGNORED and len(state.unknown) < 5:
            state.unknown.add(text_lines.shown(word))
    if is_face.any():
        _read_faces(lines, is_face, state, {word: each[is_face] for word, each in counts.items()})
        state.counts[b"f"] = int(faces[-1])


def _read_rows(lines: Lines, mask: Mask, word: bytes, state: _State) -> None:
    """Add the numbers of the lines of `mask`, which begin with `word`: v, vn or vt.

    Lines of vertices with six numbers or more have a colour: the fourth to sixth.
    """
    # How many numbers each line has, and how many such lines were before this piece.
    counts, before = lines.counts[mask] - 1, state.counts[word]
    least, most = WIDTHS[word]
    bad = np.flatnonzero((counts < least) | (counts > most))
    if len(bad):
        expected = f"{least} to {most}" if least < most else f"{least}"
        what = f"{word.decode()} must have {expected} numbers, got {counts[bad[0]]}"
        raise _BadLine(word, before + int(bad[0]), what)
    values = _numbers(word, before, lines.text(mask, len(word)), np.float64, int(counts.sum()))
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
    """Return the `count` numbers of type `kind` in a text; raise a `_BadLine` for other words.

    The lines began with `word`, which is blanked out; `before` is how many such lines of the file
    come before the text. Slashes in lines of faces count as spaces.
    """
    if word == b"f":
        text = text.replace(b"/", b" ")
    values = text_lines.numbers(text, kind, count)
    if values is not None:
        return values
    row, line = text_lines.first_without_numbers(text, kind)
    raise _BadLine(word, before + row, f"{text_lines.shown(line)} are not numbers")


def _read_faces(lines: Lines, mask: Mask, state: _State, counts: dict[bytes, Ints]) -> None:
    """Add the faces in the lines of `mask` to `state`.

    `counts` has by keyword (v, vt, vn) how many such lines come before each face: negative indices
    count back from there.
    """
    lengths, before = lines.counts[mask] - 1, state.counts[b"f"]
    text = lines.text(mask, 1)
    total = int(lengths.sum())
    # The line of each corner; a corner has up to three numbers, `slots`, of which some are `given`.
    line_of = np.repeat(np.arange(len(lengths)), lengths)
    if b"/" not in text:
        slots = _numbers(b"f", before, text, np.int64, total).reshape(-1, 1)
        given = np.ones((total, 1), np.bool_)
    else:
        slots, given = _slots(text, total, line_of, before)
    corners = np.full((total, 3), -1, np.int32)
    for k, word in zip(range(slots.shape[1]), (b"v", b"vt", b"vn"), strict=False):
        ids, has = slots[:, k], given[:, k]
        count = counts[word][line_of]
        # Indices count from 1, or back from -1; 0 is not valid. The upper end is checked when the
        # whole file has been read.
        rows = np.where(ids < 0, count + ids, ids - 1)
        bad = has & ((ids == 0) | (rows < 0) | (rows >= MAX_PRIMITIVES))
        if k > 0:
            rows[bad] = UNKNOWN
        elif bad.any():
            first = int(bad.argmax())
            what = f"{ids[first]} is no index of {word.decode()}: {count[first]} are before"
            raise _BadLine(b"f", before + int(line_of[first]), what)
        corners[has, k] = rows[has]
    state.corners.append(corners)
    state.lengths.append(lengths)


def _slots(text: bytes, total: int, line_of: Ints, before: int) -> tuple[Ints, Mask]:
    """Return the numbers (total, 3) of corners such as 1/2/3 and 1//3, and which are given.

    `text` are lines of faces without the f. `line_of` is the line of each of the `total` corners,
    and `before` the number of earlier lines of faces, for errors.
    """
    data = np.frombuffer(b" " + text + b" ", np.uint8)
    is_slash, is_space = data == ord("/"), data <= 32
    # Where corners begin, and where their numbers begin.
    starts = np.flatnonzero(~is_space[1:] & is_space[:-1]) + 1
    in_number = ~(is_slash | is_space)
    at = np.flatnonzero(in_number[1:] & ~in_number[:-1]) + 1
    slashes = np.cumsum(is_slash, dtype=np.int32)
    per_corner = np.diff(slashes[starts], append=slashes[-1])
    bad = is_slash[starts] | (per_corner > 2)
    if bad.any():
        first = int(bad.argmax())
        word = text_lines.shown(data[starts[first] :].tobytes().split(None, 1)[0])
        raise _BadLine(b"f", before + int(line_of[first]), f"{word} is no corner of a face")
    values = _numbers(b"f", before, text, np.int64, len(at))
    corner_of = np.searchsorted(starts, at, "right") - 1
    # The slot of a number is how many slashes of its corner come before.
    slot_of = slashes[at] - slashes[starts[corner_of]]
    slots, given = np.zeros((total, 3), np.int64), np.zeros((total, 3), np.bool_)
    slots[corner_of, slot_of], given[corner_of, slot_of] = values, True
    return slots, given


def _mesh_of(state: _State, resolver: Any) -> FileMesh:
    """Return the mesh of a whole file; raise a `_BadLine` for indices beyond its last vertex."""
    points, uv, normals = (
        np.concatenate([np.empty((0, size)), *state.rows.pop(word)]) for word, size in SIZES.items()
    )
    lengths = np.concatenate([np.empty(0, np.int64), *state.lengths])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    columns = []
    for k, (word, rows) in enumerate(zip(SIZES, (points, uv, normals), strict=True)):
        given = [corners[:, k] for corners in state.corners]
        column = np.concatenate([np.empty(0, np.int32), *given])
        beyond = column >= len(rows)
        if k > 0 and beyond.any():
            # Faces do not depend on these.
            column[beyond] = -1
            what = f"{np.count_nonzero(beyond)} corners of an OBJ file have wrong indices"
            warn_caller(f"{what} of {word.decode()}, which are ignored")
        elif beyond.any():
            bad = int(beyond.argmax())
            what = f"{column[bad] + 1} is no index of {word.decode()}: the file has {len(rows)}"
            raise _BadLine(b"f", int(np.searchsorted(offsets, bad, "right")) - 1, what)
        columns.append(column)
    colors = np.concatenate([np.empty((0, 3)), *state.colors])
    has_colors = not np.isnan(colors).all()
    if has_colors and np.nanmax(colors) > 1.0:
        # Some programs write bytes instead of numbers from 0 to 1.
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
    """Return trimesh materials by name, from files in lines mtllib, as far as they can be read."""
    if not libraries:
        # trimesh takes long to import.
        return {}
    parse_mtl: Any = importlib.import_module("trimesh.exchange.obj").parse_mtl
    material: Any = importlib.import_module("trimesh.visual.material").SimpleMaterial
    named: dict[str, Any] = {}
    for given in dict.fromkeys(libraries):
        # Try it as one name with spaces, then as several names.
        for name in (given, *given.split()):
            # Pictures are drawn without what is missing or damaged.
            with contextlib.suppress(Exception):
                looks = parse_mtl(resolver.get(name), resolver=resolver)
                named |= {label: material(**look) for label, look in looks.items()}
                if name == given:
                    break
    return named


def _parts_of(
    names: list[tuple[int, bytes, str]], materials: dict[str, Any], count: int
) -> tuple[tuple[Part, ...], Ints, NDArray[np.uint8] | None]:
    """Return the parts of a file, the part of each of its `count` faces, and colours of faces.

    A part is an object; where an object has several groups, or there is no object, it is a group.
    Within it, the faces of each material with an image are a part of their own, and so are faces
    without a material. All others are one part, with the colours (count, 4) of their materials. The
    colours are None if no part has several materials. `names` are as in `_State`.
    """
    # Runs of faces: the first, the last plus 1, their object, group and material.
    runs: list[tuple[int, int, str | None, str | None, str | None]] = []
    groups_of: dict[str, set[str | None]] = {}
    owner = group = look = None
    for (begin, word, name), (end, _, _) in itertools.pairwise(
        [(0, b"", ""), *names, (count, b"", "")]
    ):
        if word == b"o":
            owner, group = name or None, None
        elif word == b"g":
            group = name or None
        elif word == b"usemtl":
            look = name if name in materials else None
        if begin < end:
            runs.append((begin, end, owner, group, look))
            groups_of.setdefault(owner or "", set()).add(group)
    # The parts, numbered by their object, group and material, and the materials in each.
    keys: dict[tuple[str | None, str | None, str | None], int] = {}
    used: list[set[str]] = []
    part_ids, colors = np.zeros(count, np.int64), np.zeros((count, 4), np.uint8)
    for begin, end, owner, group, look in runs:
        if owner is not None and len(groups_of[owner]) == 1:
            group = None
        # All materials without an image have the same key, "".
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
