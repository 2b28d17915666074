"""Merging of answers from parts of a mesh: the least by (t, id), the first k, sums, sorted lists.

Distances of different parts can be compared because t is the real distance, correctly rounded, for
each triangle alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.queries.verbs import Merge, Verb

# Indices of queries or of entries.
Rows = NDArray[np.int64]
# Types of columns by name.
Kinds = dict[str, type[np.generic]]
Floats = NDArray[np.float64]
Column = NDArray[Any]
# Columns of a result by name, with a row for each query, or for each entry of a list.
Columns = dict[str, Column]
NO_COLUMNS: Kinds = {}

# Values of columns for a miss, and columns with three numbers in a row.
MISSES: dict[str, float | bool] = {
    "t": np.inf, "distance": np.inf, "position": np.nan, "prim_id": -1, "u": np.nan, "v": np.nan,
    "front": False, "part": -1,
}  # fmt: skip
VECTORS = ("position", "normal")
# The function that merges numbers of two parts, and the initial value.
NUMBERS: dict[Merge, tuple[np.ufunc, float | bool]] = {
    Merge.ANY: (np.logical_or, False), Merge.LOWEST: (np.minimum, np.inf), Merge.SUM: (np.add, 0)
}  # fmt: skip


def grouped(key: NDArray[np.integer], rows: Rows, values: Column) -> list[tuple[int, Rows, Column]]:
    """Return (key, rows, values) for each number that occurs in `key`, in ascending order.

    The arguments are columns of one length; numbers are not negative, and rows keep their order.
    """
    # NumPy sorts 16-bit integers by radix, in a sixth of the time.
    key = key.astype(np.uint16) if key.max(initial=0) < 1 << 16 else key
    order = np.argsort(key, kind="stable")
    key, rows, values = key[order], rows[order], values[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    # Not strict: without rows, `ends` has one item, and `starts` none.
    ends = np.append(starts[1:], len(key))
    return [(int(key[b]), rows[b:e], values[b:e]) for b, e in zip(starts, ends, strict=False)]


def merge(how: Merge, answers: Columns, other: Columns, rows: Rows | None = None) -> None:
    """Merge the answers `other` of a part into `answers`, in place; both are columns by name.

    Row i of `other` is for row `rows[i]` of `answers`; without `rows`, for row i. `how` says what
    is kept of two answers: the least by (t or distance, id), or their sum, minimum or disjunction.
    """
    chosen = slice(None) if rows is None else rows
    if how is not Merge.LEAST:
        join, _ = NUMBERS[how]
        for name, column in answers.items():
            column[chosen] = join(column[chosen], other[name])
    elif answers["prim_id"].ndim > 1:
        _merge_first_few(answers, other, chosen)
    else:
        _merge_least(answers, other, chosen)


def _measure(columns: Columns) -> Column:
    """Return the column by which answers are compared before their ids: t, or the distance."""
    return columns["t" if "t" in columns else "distance"]


def _merge_least(answers: Columns, other: Columns, chosen: Rows | slice) -> None:
    """Replace rows `chosen` of answers by those of `other` that are less by (t or distance, id)."""
    # An id of -1 is a miss.
    near, prim_id = _measure(other), other["prim_id"]
    least, least_id = _measure(answers)[chosen], answers["prim_id"][chosen]
    is_less = (least_id < 0) | (near < least) | ((near == least) & (prim_id < least_id))
    better = np.flatnonzero(is_less & (prim_id >= 0))
    rows = better if isinstance(chosen, slice) else chosen[better]
    for name, column in answers.items():
        column[rows] = other[name][better]


def _merge_first_few(answers: Columns, other: Columns, chosen: Rows | slice) -> None:
    """Keep the first k by (t or distance, id) of the answers at rows `chosen` and those of `other`.

    Both have k answers to each query: columns have the shape (n, k), or (n, k, 3).
    """
    both = {
        name: np.concatenate([column[chosen], other[name]], 1) for name, column in answers.items()
    }
    # The last key is the first to be compared, so misses come last.
    keys = both["prim_id"], _measure(both), both["prim_id"] < 0
    order = np.lexsort(keys, axis=-1)[:, : answers["prim_id"].shape[1]]
    each = np.arange(len(order))[:, None]
    for name, column in answers.items():
        column[chosen] = both[name][each, order]


class MergedAnswers:
    """Answers so far of a flat batch of queries, in `columns`."""

    def __init__(self, verb: Verb, shape: tuple[int, ...], extra: Kinds = NO_COLUMNS) -> None:
        """Begin with misses, of `shape` (n,) for n queries, or (n, k) if each has k answers.

        `verb` declares the query. `extra` has the types of columns besides those of its result.
        """
        assert verb.merge is not None
        self._how, self.columns = verb.merge, Columns()
        self._size, self._is_new = shape[0], True
        for name, kind in (verb.columns(id_type=np.int64) | extra).items():
            # A miss, or the initial number of the function that merges.
            begin = MISSES[name] if self._how is Merge.LEAST else NUMBERS[self._how][1]
            full = (*shape, 3) if name == "position" else shape
            self.columns[name] = np.full(full, begin, kind)

    def reach(self, rows: Rows) -> Floats | None:
        """Return the largest distance at which a part may change the answer, for queries `rows`.

        None if parts at any distance may change all of them.
        """
        if self._how is Merge.SUM:
            return None
        # The first column is t or the distance or, for `Merge.ANY`, whether there is a hit: if so,
        # no part changes the answer. Of k answers, the last has the largest distance.
        column = next(iter(self.columns.values()))
        last = column[rows] if column.ndim == 1 else column[rows, -1]
        return np.where(last, -np.inf, np.inf) if self._how is Merge.ANY else np.asarray(last)

    def take(self, other: Columns, rows: Rows) -> None:
        """Merge the answers of a part, `other`, whose row i is for the query rows[i]; rows ascend.

        Columns of `other` may be stored, and changed later.
        """
        first, self._is_new = self._is_new and len(rows) == self._size, False
        if first:
            self.columns = {n: np.require(other[n], c.dtype, "W") for n, c in self.columns.items()}
        else:
            merge(self._how, self.columns, other, rows)

    def result(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the columns by name, in the shape of the queries; scalars for a single query."""
        full = {n: c.reshape((*shape, *c.shape[1:])) for n, c in self.columns.items()}
        return {name: c if c.ndim else c.item() for name, c in full.items()}


class MergedLists:
    """Entries of a flat batch of queries, merged from parts and sorted."""

    def __init__(
        self, verb: Verb, keys: tuple[str, ...], size: int, limit: int | None = None,
        extra: Kinds = NO_COLUMNS,
    ) -> None:  # fmt: skip
        """Begin without entries of `size` queries, which `verb` declares.

        `keys` are the columns to sort by: first the number of the query, then the order of its
        entries. With a `limit`, a query has at most that many entries, the first in order. `extra`
        has the types of columns besides those of the result.
        """
        self._keys, self._size, self._limit = keys, size, limit
        kinds = verb.columns(id_type=np.int64) | {keys[0]: np.int64} | extra
        self._empty = {name: np.empty(0, kind) for name, kind in kinds.items()}
        # Entries that `finish` has sorted, and those added since.
        self._sorted, self._added = [self._empty], list[Columns]()
        # Entries of a query beyond this distance are not among the first `limit`.
        self._reach = None if limit is None else np.full(size, np.inf)

    def reach(self, rows: Rows) -> Floats | None:
        """Return the distance up to which entries count, for queries `rows`; None if all count."""
        return None if self._reach is None else self._reach[rows]

    def take(self, other: Columns, rows: Rows) -> None:
        """Add the entries `other` of a part, sorted by query; query i there is query rows[i]."""
        query = other[self._keys[0]]
        entries = {name: other[name] for name in self._empty}
        self._added.append(entries | {self._keys[0]: rows[query]})
        if self._reach is not None:
            # Where this part has `limit` entries, none beyond the last of them counts.
            counts = np.bincount(query, minlength=len(rows))
            full = np.flatnonzero(counts == self._limit)
            last = _measure(other)[np.cumsum(counts)[full] - 1]
            self._reach[rows[full]] = np.minimum(self._reach[rows[full]], last)

    def finish(self) -> None:
        """Sort the entries added since the last call; later ones must be of later queries."""
        if len(self._added) == 1:
            # The entries of one part are sorted.
            self._sorted.append(self._added.pop())
            return
        columns = _joined([self._empty, *self._added])
        self._added.clear()
        # `lexsort` sorts by its last key first.
        order = np.lexsort([columns[key] for key in reversed(self._keys)])
        if self._limit is not None:
            query = columns[self._keys[0]][order]
            # The position of each entry among those of its query.
            rank = np.arange(len(query)) - np.searchsorted(query, query)
            order = order[rank < self._limit]
        self._sorted.append({name: column[order] for name, column in columns.items()})

    def result(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """Return the sorted columns and `shape`; query i has rows offsets[i] : offsets[i + 1]."""
        columns = _joined(self._sorted)
        counts = np.bincount(columns.pop(self._keys[0]), minlength=self._size)
        offsets = np.append(0, np.cumsum(counts)).astype(np.int64)
        return {**columns, "offsets": offsets, "shape": shape}


def _joined(lists: list[Columns]) -> Columns:
    """Return the concatenated columns of several lists of entries."""
    return {name: np.concatenate([each[name] for each in lists]) for name in lists[0]}
