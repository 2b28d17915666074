"""Base classes of results: with one entry a query (`PerQuery`), or any number (`Ragged`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.other_libraries import in_library_of, in_numpy
from bvh.queries.verbs import COLUMN_TYPES
from bvh.runtime.arguments import CountResult, IdResult, TruthResult, number_of, shaped
from bvh.runtime.foreign_arrays import is_lazy, is_other

Result = TypeVar("Result")


def columns_of(result: Any) -> dict[str, Any]:
    """Return the fields of a result by name, without those that are None."""
    values = ((field.name, getattr(result, field.name)) for field in fields(result))
    return {name: value for name, value in values if value is not None}


def factory_of(kind: type[Result], *without: str) -> Callable[..., Result]:
    """Return a function fill(values, source=None) that makes a result of the class `kind`.

    `values` are the fields of the class in their order, without the fields named in `without`,
    which are None. Hits compute their positions from `source` (see `locations`).
    """
    # Generated code is as fast as one assignment for each field; the `__init__` of a frozen class
    # takes longer than a ray.
    names = [f.name for f in fields(kind) if f.name not in without]  # type: ignore[arg-type]
    targets = ", ".join(f"entries[{name!r}]" for name in names)
    scope: dict[str, Any] = {"kind": kind, "new": object.__new__}
    exec(
        f"""def fill(values, source=None):
    result = new(kind)
    entries = result.__dict__
    {targets} = values
    if source is not None:
        entries['_source'] = source
    return result""",
        scope,
    )
    return scope["fill"]  # type: ignore[no-any-return]


def listed_kinds(nouns: str, kinds: ArrayLike) -> str:
    """Return text such as "3 pairs: 1 equal, 2 touching", for the kind of each of some pairs."""
    names, counts = np.unique(kinds, return_counts=True)
    listed = ", ".join(f"{n} {name}" for n, name in zip(counts, names, strict=True))
    return f"{number_of(np.size(kinds), nouns)}{': ' if listed else ''}{listed}"


def selected(array: Any, index: Any, axes: int = 0) -> Any:
    """Return `array[index]`, for an index of the batch: the last `axes` axes are not indexed."""
    if axes == 0:
        return array[index]
    parts = index if isinstance(index, tuple) else (index,)
    # An ellipsis in the index would otherwise include the additional axes.
    has_ellipsis = any(part is Ellipsis for part in parts)
    return array[(*parts, *([slice(None)] * axes if has_ellipsis else [Ellipsis]))]


def truth_of(result: object, truth: Any, axes: int, instead: str) -> bool:
    """Return `truth` as a bool for a single query; for a batch of some `axes`, raise a ValueError.

    The text recommends the expression `instead`.
    """
    if axes:
        kind = type(result).__name__
        raise ValueError(f"the truth value of {kind} of a batch is ambiguous: use {instead}")
    return bool(truth)


# Names that users look for in results, and the attributes to use instead.
MEANT = {
    "distance": "t, in units of the direction's length", "distances": "t or distance",
    "point": "position", "points": "position", "locations": "position", "hit": "mask",
    "hits": "mask", "face": "prim_id", "faces": "prim_id", "face_id": "prim_id",
    "triangle": "prim_id", "index_tri": "prim_id", "primitive_ids": "prim_id", "normals": "normal",
    "instance": "instance_id", "index_ray": "ray_id", "t_hit": "t",
    "reshape": "numpy.asarray(hits).reshape",
}  # fmt: skip


class Record:
    """Base of results. Fields that are None are not stored: the class has None as their default."""

    def __getattr__(self, name: str) -> Any:
        """Raise an AttributeError that suggests the name of an attribute for an unknown one."""
        kind = type(self)
        member = None if name.startswith("_") else getattr(kind, name, None)
        compute = getattr(member, "fget", None) or getattr(member, "func", None)
        if compute is not None:
            # `name` is a property, cached or not, that has raised an AttributeError, which Python
            # hides by calling this method: raise it again.
            return compute(self)
        text = f"{kind.__name__!r} object has no attribute {name!r}"
        if not name.startswith("_"):
            # Imported only for this error.
            from difflib import get_close_matches

            public = [each for each in dir(self) if not each.startswith("_")]
            near = [MEANT[name]] if name in MEANT else get_close_matches(name, public, 1)
            text += f": did you mean {near[0]}?" if near else ""
        raise AttributeError(text, name=name, obj=self)

    def __post_init__(self) -> None:
        """Remove the fields that are None, so that the class's default, None, is read instead."""
        entries = vars(self)
        for name in [name for name, value in entries.items() if value is None]:
            del entries[name]


class Table(Record):
    """Base of results that `numpy.asarray` makes a structured array of."""

    def _columns(self) -> dict[str, Any]:
        """Return the fields of an entry by name, in the order of the table."""
        return columns_of(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return a new structured array with a field for each column.

        `dtype` must be None or the type of that array. A `copy` of False is a ValueError, because
        the fields are in separate arrays.
        """
        columns, kind = self._columns(), type(self).__name__
        names = ", ".join(columns)
        if any(map(is_lazy, columns.values())):
            raise TypeError(f"{kind} of Dask arrays is not an array: compute its fields {names}")
        # Ids of a single query get the type of those of many, unless they are larger.
        arrays = {
            name: np.asarray(a, np.int32 if type(a) is int and a < 1 << 31 else None)
            for name, a in zip(columns, map(in_numpy, columns.values()), strict=True)
        }
        # The first column has one number for each entry; others may have more axes.
        shape = next(iter(arrays.values())).shape
        row_type = np.dtype([(n, a.dtype, a.shape[len(shape) :]) for n, a in arrays.items()])
        if dtype is not None and np.dtype(dtype) != row_type:
            raise TypeError(
                f"{kind} is an array of the fields {names}, not of {np.dtype(dtype)}: "
                "take one of its fields"
            )
        if copy is False:
            raise ValueError(f"{kind} has an array for each field: no other without a copy")
        table = np.empty(shape, row_type)
        for name, array in arrays.items():
            table[name] = array
        return table


class PerQuery(Table):
    """Base of results with one entry a query: all fields have the leading shape of the batch."""

    prim_id: IdResult
    _noun = "found"  # in a repr: "5 of 9 found"
    # By name, the number of axes of a field after those of the batch; 0 for others.
    _more_axes: ClassVar[dict[str, int]] = {}

    @classmethod
    def _of(
        cls, rows: Sequence[tuple[Any, ...]], nothing: tuple[Any, ...], shape: tuple[int, ...]
    ) -> Self:
        """Return the result of some queries of the leading shape `shape`.

        Each row has the fields of one query, in order, as has `nothing`, a query without a result.
        """
        columns = {}
        for field, values in zip(fields(cls), zip(*rows, nothing, strict=True), strict=True):  # type: ignore[arg-type]
            # With `nothing`, arrays without rows have their types and other axes, too.
            array = np.array(values, COLUMN_TYPES.get(field.name))[:-1]
            more = array.shape[1:]
            columns[field.name] = array.reshape(*shape, *more) if more else shaped(shape, array)[0]
        return cls(**columns)

    def __bool__(self) -> bool:
        """Return whether a single query has a result; a batch raises a ValueError."""
        return truth_of(self, self.mask, np.ndim(self.mask), ".mask.any() or .mask.all()")

    def __len__(self) -> int:
        ids = self.prim_id
        # Not all libraries' arrays have a length.
        return ids.shape[0] if is_other(ids) and ids.shape else len(ids)

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the entries of a batch; a single result raises a TypeError."""
        if np.ndim(self.mask) == 0:
            names = ", ".join(columns_of(self))
            raise TypeError(f"a single {type(self).__name__} is no sequence: take its {names}")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Self:
        """Select entries as from an array of the batch's shape; `index` is any index of numpy."""
        more = self._more_axes
        columns = columns_of(self).items()
        return type(self)(**{k: selected(array, index, more.get(k, 0)) for k, array in columns})

    @property
    def mask(self) -> TruthResult:
        """True where there is a hit, or a closest point, with the leading shape of the batch.

        ``hits[hits.mask]`` are the hits without the misses.
        """
        return self.prim_id >= 0

    def __repr__(self) -> str:
        """Show the fields of a single result; of a batch, the number found and a field's range."""
        values, mask = columns_of(self), self.mask
        shape = " x ".join(map(str, np.shape(mask)))
        if is_lazy(mask):
            inner = f"{number_of(shape or 1, 'queries')}, lazy"
        elif np.ndim(mask) == 0:
            inner = ", ".join(f"{name}={value!r}" for name, value in values.items())
        elif is_other(mask):
            return repr(type(self)(**{name: in_numpy(array) for name, array in values.items()}))
        else:
            inner = f"{np.count_nonzero(mask)} of {number_of(shape, self._noun)}"
            if mask.any():
                name = next(iter(values))
                near, far = values[name][mask].min(), values[name][mask].max()
                inner += f"{self._owners_text(mask)}, {name} {near:.6g} to {far:.6g}"
            inner += self._costs_text()
        return f"{type(self).__name__}({inner})"

    def _owners_text(self, mask: NDArray[np.bool_]) -> str:
        """Return the number of instances hit by entries in `mask`, as text; empty here."""
        return ""

    def _costs_text(self) -> str:
        """Return the average cost of a ray, as text; empty here."""
        return ""


class Ragged(Record):
    """Base of results with any number of entries for each query, at offsets[i] : offsets[i + 1]."""

    offsets: NDArray[np.int64]
    shape: tuple[int, ...]

    def __bool__(self) -> bool:
        """Return whether a single query has any entries; a batch raises a ValueError."""
        return truth_of(self, self.offsets[-1] > 0, len(self.shape), ".counts > 0")

    @property
    def counts(self) -> CountResult:
        """Number of entries of each query, in the batch's shape; an int for a single query."""
        counts = np.diff(in_numpy(self.offsets))
        shaped = counts.reshape(self.shape) if self.shape else int(counts[0])
        return in_library_of(shaped, self.offsets)

    def _entries(self) -> dict[str, Any]:
        """Return the fields that have a row for each entry, by name: all but offsets and shape."""
        return {k: a for k, a in columns_of(self).items() if k not in ("offsets", "shape")}

    def _query_ids(self) -> NDArray[np.int64]:
        """Return the number of the query of each entry, in the flat batch, shape (m,)."""
        counts = np.diff(in_numpy(self.offsets))
        queries = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        return in_library_of(queries, self.offsets)  # type: ignore[no-any-return]
