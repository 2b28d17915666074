"""Lines of text files as tables of numbers, some megabytes at a time."""

import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Bytes that are split into lines at a time.
PIECE = 1 << 22
# The byte order mark with which some programs begin a text in UTF-8.
MARK = b"\xef\xbb\xbf"
# Behind a word: white space, or a comment (a part of a regular expression).
GAP = rb"(?=[\0-\x20#])"
# A number appended to a text of numbers: if it is read, all before it were numbers. Integers and
# doubles hold it exactly, and a text hardly has it.
_SENTINEL = 2**52 + 1


class Lines(NamedTuple):
    """The lines of a piece of text that have words, which are runs of bytes above 32 (space).

    `begins` and `ends` are indices in the bytes `data`: of the first word of each line, and of its
    newline. `counts` is the number of words of each line.
    """

    # Ends with white space, so that a keyword can be compared without a check of the length.
    data: NDArray[np.uint8]
    begins: Ints
    ends: Ints
    counts: Ints

    def start_with(self, word: bytes, any_case: bool = False) -> Mask:
        """Return a mask of the lines whose first word is `word`.

        With `any_case`, words in capitals match, too, and `word` must be in lower case.
        """
        # The bit by which upper and lower case differ in ASCII.
        bit = 32 if any_case else 0
        # Compare first letters, then the other letters of the lines that are left.
        matches = np.asarray((self.data[self.begins] | bit) == word[0])
        rows = np.flatnonzero(matches)
        first = self.begins[rows]
        # White space must follow the word.
        same = self.data[first + len(word)] <= 32
        for k in range(1, len(word)):
            same &= (self.data[first + k] | bit) == word[k]
        matches[rows] = same
        return matches

    def text(self, mask: Mask, skip: int) -> bytes:
        """Return the lines for which `mask` is True, the first `skip` bytes of each as spaces."""
        # Runs of such lines: the first line, and the line behind the last.
        runs = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
        data = self.data.copy() if skip else self.data
        for k in range(skip):
            data[self.begins[mask] + k] = 32
        content = memoryview(data.data).cast("B")
        begins, ends = self.begins[runs[:, 0]].tolist(), self.ends[runs[:, 1] - 1].tolist()
        return b"\n".join([content[a:b] for a, b in zip(begins, ends, strict=True)])


def decoded(name: bytes) -> str:
    """Return a name or a line, which is in UTF-8 or Latin-1, as text without spaces around it."""
    try:
        return name.decode().strip()
    except UnicodeDecodeError:
        return name.decode("latin-1").strip()


def with_newlines(data: bytes) -> bytes:
    """Return a text whose lines all end with a newline, without a byte order mark."""
    data = data.removeprefix(MARK)
    # In old texts, lines end with a carriage return alone.
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data if data.endswith(b"\n") else data + b"\n"


def pieces_of(data: bytes) -> Iterator[Lines]:
    """Yield the lines of a text that ends with a newline, about PIECE bytes at a time."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + PIECE) + 1 or len(data)
        # White space at the end, so that `Lines.start_with` may read beyond the last line.
        piece = np.frombuffer(data[begin:end] + b" " * 16, np.uint8)
        begin = end
        is_start = piece > 32
        is_start[1:] &= piece[:-1] <= 32
        starts, ends = np.flatnonzero(is_start), np.flatnonzero(piece == 10)
        # Words that begin before the end of each line.
        before = np.searchsorted(starts, ends)
        counts = np.diff(before, prepend=0)
        # Leave out lines without words; the others begin at the first of their words.
        filled = counts > 0
        counts = counts[filled]
        yield Lines(piece, starts[before[filled] - counts], ends[filled], counts)


def numbers(text: bytes, kind: type[np.generic], count: int) -> NDArray[Any] | None:
    """Return the `count` words of a text as numbers of type `kind`, or None if not all are such."""
    with warnings.catch_warnings():
        # `fromstring` stops at text that is no number, now with a warning, later with an error:
        # if it returns the number appended here, it has read all.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            values = np.fromstring(b"%b %d" % (text, _SENTINEL), kind, sep=" ")
        except ValueError:
            return None
    return values[:-1] if len(values) == count + 1 and values[-1] == _SENTINEL else None


def table(text: bytes, before: int = 0) -> tuple[NDArray[np.float64], Ints]:
    """Return all numbers in a text, and for each of n lines with words where its numbers begin.

    The last of n + 1 indices is the number of all numbers. Errors name the line; `before` is the
    number of lines of the file before the text.
    """
    values, counts = [np.empty(0)], [np.empty(0, np.int64)]
    for lines in pieces_of(text):
        content = lines.text(np.ones(len(lines.begins), np.bool_), skip=0)
        some = numbers(content, np.float64, int(lines.counts.sum()))
        if some is None:
            row, line = first_without_numbers(content, np.float64)
            number = before + line_number(text, sum(map(len, counts)) + row)
            raise ValueError(f"line {number}: {shown(line)} are not numbers")
        values.append(some)
        counts.append(lines.counts)
    return np.concatenate(values), np.cumsum(np.concatenate([[0], *counts]))


def first_without_numbers(text: bytes, kind: type[np.generic]) -> tuple[int, bytes]:
    """Return (row, line) of the first line with words that are no numbers of type `kind`.

    The row counts lines with words, from 0. Raises a ValueError if each line can be read alone.
    """
    filled = (line for line in text.split(b"\n") if max(line, default=0) > 32)
    for row, line in enumerate(filled):
        if numbers(line, kind, len(line.split())) is None:
            return row, line
    raise ValueError("some of its numbers cannot be read")


def line_number(data: bytes, row: int, word: bytes = rb"[^\0-\x20]", original: bytes = b"") -> int:
    """Return the number (from 1) of a line: line `row` (from 0) of those that begin with `word`.

    `word` is a regular expression for the start of the first word, by default any. If lines were
    joined in `data`, those of `original`, the text before that, of the same length, are counted.
    """
    lines = re.finditer(rb"^[\0-\x09\x0b-\x20]*(?:%b)" % word, data, re.MULTILINE)
    for k, line in enumerate(lines):
        if k == row:
            return (original or data).count(b"\n", 0, line.start()) + 1
    raise IndexError(row)


def shown(line: bytes) -> str:
    """Return the first 60 characters of a line in quotes, for an error."""
    return repr(line.strip().decode("utf-8", "replace")[:60])
