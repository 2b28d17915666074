"""Lines of text files as tables of numbers, some megabytes at a time."""

import re
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

# Bytes that are split into lines at a time.
PIECE = 1 << 22
# How some programs begin a text in UTF-8.
MARK = b"\xef\xbb\xbf"
# A number appended to a text of numbers: if it is read, all before it were numbers.
_LAST = 4503599627370497


class Lines(NamedTuple):
    """Lines of a piece of text that are not empty."""

    # Ends with white space, so that a keyword can be compared without a check of the length.
    data: NDArray[np.uint8]
    begins: Ints  # of the first word
    ends: Ints
    counts: Ints  # of words

    def start_with(self, word: bytes, case: int = 0) -> NDArray[np.bool_]:
        """Return which lines have this first word, in lower case; in any case if `case` is 32."""
        matches = np.asarray((self.data[self.begins] | case) == word[0])
        rows = np.flatnonzero(matches)
        at = self.begins[rows]
        same = self.data[at + len(word)] <= 32
        for k in range(1, len(word)):
            same &= (self.data[at + k] | case) == word[k]
        matches[rows] = same
        return matches

    def text(self, mask: NDArray[np.bool_], skip: int) -> bytes:
        """Return the lines of a mask, with spaces for the first `skip` bytes of each."""
        # Where runs of such lines begin, and the lines behind their ends.
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
        data = self.data
        if skip:
            data = data.copy()
            for k in range(skip):
                data[self.begins[mask] + k] = 32
        content = memoryview(data.data).cast("B")
        begins, ends = self.begins[edges[:, 0]].tolist(), self.ends[edges[:, 1] - 1].tolist()
        return b"\n".join([content[a:b] for a, b in zip(begins, ends, strict=True)])


def with_newlines(data: bytes) -> bytes:
    """Return a text whose lines end with a newline; old ones end with a carriage return alone."""
    data = data.removeprefix(MARK)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    return data if data.endswith(b"\n") else data + b"\n"


def pieces_of(data: bytes) -> Iterator[Lines]:
    """Yield the lines of a text that ends with a newline."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + PIECE) + 1 or len(data)
        yield _lines(data[begin:end])
        begin = end


def _lines(text: bytes) -> Lines:
    data = np.frombuffer(text + b" " * 16, np.uint8)
    is_start = data > 32
    is_start[1:] &= data[:-1] <= 32
    starts, ends = np.flatnonzero(is_start), np.flatnonzero(data == 10)
    # Words that begin before the end of each line.
    before = np.searchsorted(starts, ends)
    counts = np.diff(before, prepend=0)
    filled = counts > 0
    counts = counts[filled]
    return Lines(data, starts[before[filled] - counts], ends[filled], counts)


def numbers(text: bytes, kind: type[np.generic], count: int) -> NDArray[Any] | None:
    """Return the numbers in a text with `count` words, or None if not all are numbers."""
    with warnings.catch_warnings():
        # `fromstring` stops at text that is no number: now with a warning, later with an error.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            values = np.fromstring(b"%b %d" % (text, _LAST), kind, sep=" ")
        except ValueError:
            return None
    return values[:-1] if len(values) == count + 1 and values[-1] == _LAST else None


def table(text: bytes, before: int = 0) -> tuple[NDArray[np.float64], Ints]:
    """Return the numbers in a text, and where in them each line begins, and the last one ends.

    Empty lines do not count. Errors name the line; `before` is the number of lines before the text.
    """
    values, begins, done, rows = [np.empty(0)], [np.empty(0, np.int64)], 0, 0
    for lines in pieces_of(text):
        every = np.ones(len(lines.begins), np.bool_)
        content, ends = lines.text(every, 0), np.cumsum(lines.counts)
        some = numbers(content, np.float64, int(lines.counts.sum()))
        if some is None:
            row, line = first_without_numbers(content, np.float64)
            number = before + line_number(text, rows + row)
            raise ValueError(f"line {number}: {shown(line)} are not numbers")
        values.append(some)
        begins.append(done + ends - lines.counts)
        done, rows = done + len(some), rows + len(every)
    return np.concatenate(values), np.concatenate([*begins, [done]])


def first_without_numbers(text: bytes, kind: type[np.generic]) -> tuple[int, bytes]:
    """Return the first line, of those that are not empty, that has something else than numbers."""
    filled = (line for line in text.split(b"\n") if max(line, default=0) > 32)
    for row, line in enumerate(filled):
        if numbers(line, kind, len(line.split())) is None:
            return row, line
    raise ValueError("some of its numbers cannot be read")


# Behind a word: white space, or a comment.
GAP = rb"(?=[\0-\x20#])"


def line_number(
    data: bytes, row: int, word: bytes = rb"[^\0-\x20]", original: bytes | None = None
) -> int:
    """Return the number, from 1, of line `row` of those that begin with a word.

    Lines are counted in `original`, of the same length, if lines are joined in `data`.
    """
    lines = re.finditer(rb"^[\0-\x09\x0b-\x20]*(?:%b)" % word, data, re.MULTILINE)
    for k, line in enumerate(lines):
        if k == row:
            return (original or data).count(b"\n", 0, line.start()) + 1
    raise IndexError(row)


def shown(line: bytes) -> str:
    return repr(line.strip().decode("utf-8", "replace")[:60])
