"""Checks of public arguments: types, shapes and ranges, once, before any kernel runs."""

import operator
import sys
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.cpus import ALL_CPUS, allowed_cpus, default_threads
from bvh.runtime.foreign_arrays import ORDINARY, as_numpy, is_other

# Options that are strings; checks and documented signatures have their values from here.
Axis = Literal["x", "y", "z", "-x", "-y", "-z"]
Cull = Literal["back", "front"]
EdgeRule = Literal["closed", "once"]
InsideRule = Literal["parity", "winding"]
INSIDE_RULES = get_args(InsideRule)
Quality = Literal["medium", "high"]
Memory = Literal["full", "compact"]

# Types of results for type checkers: the arrays of a batch can be used without a cast. `Any` stands
# for the number of a single query, and for arrays of other libraries.
CountResult = NDArray[np.int64] | Any
FloatResult = NDArray[np.float64] | Any
IdResult = NDArray[np.int32] | Any
TruthResult = NDArray[np.bool_] | Any

CULL_CODES: dict[Cull | None, int] = {None: 0, "back": 1, "front": -1}

ALL_BITS = 0xFFFFFFFF  # the mask of all faces
MAX_ROWS = 2**31 - 2  # vertex indices are int32
LARGEST = float(np.finfo(np.float64).max)
MAX_PRIMITIVES = 2**30  # the 2n - 1 nodes of a tree over n primitives are int32, too

# Nouns whose plural is not the singular and an s.
SINGULARS = {
    "boxes": "box", "geometries": "geometry", "leaves": "leaf", "meshes": "mesh",
    "queries": "query", "vertices": "vertex",
}  # fmt: skip


def grouped(count: Any) -> str:
    """Return a whole number as text, its digits in groups of three with no-break spaces between."""
    return f"{count:,}".replace(",", "\N{NO-BREAK SPACE}")


def number_of(count: Any, plural: str, form: str = "") -> str:
    """Return a number and its noun, such as "1 ray" or "2 rays".

    The noun is the first word of `plural`. `form` is a format specification; for "," see `grouped`.
    """
    number = grouped(count) if form == "," else format(count, form)
    if number != "1":
        return f"{number} {plural}"
    noun, space, rest = plural.partition(" ")
    return f"1 {SINGULARS.get(noun, noun.removesuffix('s'))}{space}{rest}"


def reals(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return the argument `name` as a float64 array of any shape; raise unless all are reals."""
    array = numbers(name, value)
    if array.dtype == np.float64:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def numbers(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return the argument `name` as an array of its own type; raise unless all are real numbers."""
    return _plain(name, value, "iuf", "real numbers")


def points(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return the argument `name` as float64 of shape (..., 3); raise for other shapes."""
    return vectors(name, reals(name, value))


def vectors(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return the argument `name` if its shape is (..., 3); an empty one as (0, 3); else raise."""
    if array.ndim == 0 or array.shape[-1] != 3:
        if array.shape == (0,):
            return array.reshape(0, 3)
        raise ValueError(f"{name} must have shape (..., 3), got {array.shape}")
    return array


def common_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which `shapes` broadcast; raise a ValueError if they do not.

    `shapes` are, by the names of a query's arguments, those of the batch, without the axes of one
    item.
    """
    different = {shape for shape in shapes.values() if shape != ()}
    if len(different) < 2:
        return different.pop() if different else ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        names = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape != ())
        raise ValueError(f"leading shapes do not broadcast: {names}") from None


def shaped(shape: tuple[int, ...], *arrays: NDArray[Any]) -> tuple[Any, ...]:
    """Return flat arrays of results in the leading shape of a batch; scalars if the shape is ()."""
    if shape == ():
        return tuple([array.item(0) for array in arrays])
    if len(shape) == 1:
        return arrays
    return tuple(array.reshape(shape) for array in arrays)


def rows(name: str, value: ArrayLike, width: int = 3) -> NDArray[np.float64]:
    """Return the argument `name` as float64 of shape (n, width); raise for other shapes."""
    array = reals(name, value)
    if array.shape == (0,):
        return array.reshape(0, width)
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(f"{name} must have shape (n, {width}), got {array.shape}")
    return _limited(name, array, MAX_ROWS)


def owned(array: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    """Return a read-only C-contiguous copy that no caller can change."""
    copy = np.array(array, dtype=dtype, order="C", copy=True, subok=False)
    copy.flags.writeable = False
    return copy


def unchanging(
    array: NDArray[Any], given: object, copied: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[Any]:
    """Return `array`, made from `given`, read-only and in C order, which no caller can change.

    It is copied by `copied`, which keeps its type, unless it is new or its memory is constant.
    """
    # Arrays made from lists, or of another type, are new. A read-only view may change: by another
    # view, or in a file by another process. Kernels would then follow unchecked indices of faces.
    is_ours = isinstance(given, list | tuple) or (
        isinstance(given, np.ndarray) and given.dtype != array.dtype
    )
    if not (is_ours or _is_constant(array)) or not array.flags.c_contiguous:
        array = copied(array)
        array.flags.writeable = False
    return kernel_input(array)


def _is_constant(array: NDArray[Any]) -> bool:
    """Return whether nothing can change the numbers of an array.

    That is, it is read-only, and its memory belongs to `bytes`, to an array to which only the view
    refers, or to one that is read-only, too.
    """
    if array.flags.writeable or array.flags.owndata:
        return not array.flags.writeable
    if not isinstance(array.base, np.ndarray):
        return isinstance(array.base, bytes)
    # Two references: that of the array, and the argument of `getrefcount`. As the base of a view is
    # never a view of numpy's, another view of this memory would be a third reference.
    is_its_own = array.base.flags.owndata and sys.getrefcount(array.base) == 2
    return is_its_own or _is_constant(array.base)


def kernel_input(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array aligned, in C order and read-only, a view if possible.

    Numba would compile a kernel again for another layout, and a user's for another writability.
    """
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.require(array, requirements=["C", "A"])
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def face_rows(name: str, value: ArrayLike, vertex_count: int) -> NDArray[np.int32]:
    """Return the argument `name` as int32 of shape (m, 3), every index below `vertex_count`."""
    array = integers(name, value)
    if array.size == 0 and (array.ndim == 1 or array.shape[-1] == 3):
        return np.empty((0, 3), np.int32)
    if array.ndim != 2 or array.shape[1] != 3:
        hint = "; BVH.from_mesh takes quads and polygons" if array.shape[1:] == (4,) else ""
        raise ValueError(f"{name} must have shape (m, 3), got {array.shape}{hint}")
    _limited(name, array, MAX_PRIMITIVES)
    # Read as unsigned numbers of 4 bytes or more, negative ones are larger than all counts.
    is_short = array.itemsize < 4
    indices = array if is_short else array.view(array.dtype.str.replace("i", "u"))
    if int(indices.max()) >= vertex_count or (is_short and int(array.min()) < 0):
        bad = np.flatnonzero(((array < 0) | (array >= vertex_count)).any(axis=1))[0]
        got = f"{array[bad].tolist()} in row {bad}"
        raise ValueError(f"{name} must index the {vertex_count} vertices, got {got}")
    return array.astype(np.int32, copy=False)


def check_option(name: str, value: Any, options: tuple[str | None, ...]) -> None:
    """Raise a ValueError unless the value of the argument `name` is one of the options."""
    if not (value is None or isinstance(value, str)) or value not in options:
        # Imported only for this error: the import takes as long as a thousand rays.
        from difflib import get_close_matches

        others, last = ", ".join(map(repr, options[:-1])), options[-1]
        near = get_close_matches(str(value), [option for option in options if option], 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name} must be {others} or {last!r}, got {value!r}{meant}")


def cull_code(cull: Cull | None) -> int:
    """Return the side that a query ignores: -1 for front faces, 1 for back faces, 0 for none."""
    if cull is not None:
        check_option("cull", cull, tuple(CULL_CODES))
    return CULL_CODES[cull]


def thread_count(threads: int | None) -> int:
    """Return the number of threads to use: `threads`; for None, `default_threads`.

    -1 (`ALL_CPUS`) stands for all CPUs of the process's affinity.
    """
    number = default_threads() if threads is None else thread_limit(threads)
    return allowed_cpus() if number == ALL_CPUS else number


def thread_limit(threads: int) -> int:
    """Return `threads` as an integer; raise unless it is at least 1, or -1 for all CPUs."""
    number = one_index("threads", threads)
    if number < 1 and number != ALL_CPUS:
        raise ValueError(f"threads must be at least 1, or -1 for all CPUs, got {number}")
    return number


def whole_number(name: str, value: int, least: int = 1) -> int:
    """Return the argument `name` as an integer; raise unless it is at least `least`."""
    number = one_index(name, value)
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def integers(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return the argument `name` as an array of integers; an empty one may have any type."""
    return _plain(name, value, "iu", "integers")


def index_rows(name: str, value: ArrayLike) -> NDArray[np.int64]:
    """Return the argument `name`, integers, as int64 of shape (n,); raise for other shapes."""
    array = integers(name, value)
    if array.shape == (0,):
        return np.empty(0, np.int64)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}")
    return array.astype(np.int64)


def one_index(name: str, value: int) -> int:
    """Return the argument `name` as an integer; raise a TypeError for others, also for booleans."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None


def bit_masks(name: str, value: ArrayLike) -> NDArray[np.uint32]:
    """Return the argument `name`, integers from 0 to 2**32 - 1, as uint32 of its shape."""
    if type(value) is int and 0 <= value <= ALL_BITS:
        return np.array(value, np.uint32)
    array = _plain(name, value, "iu", "integers", quote=True)
    bad = (array < 0) | (array > ALL_BITS)
    if bad.any():
        raise ValueError(f"{name} must be in 0..0xFFFFFFFF, got {array[bad].ravel()[0]}")
    return array.astype(np.uint32)


def lengths(name: str, value: ArrayLike, *, finite: bool = False) -> NDArray[np.float64]:
    """Return the argument `name`, distances or radii, as float64 of its shape.

    A single length must be at least 0 and, with `finite`, finite. Lengths of a batch are not
    checked: queries with invalid lengths have no results.
    """
    array = reals(name, value)
    if array.ndim == 0 and not 0.0 <= array <= (LARGEST if finite else np.inf):
        kind = "a finite number" if finite else "a number"
        raise ValueError(f"{name} must be {kind} of at least 0, got {float(array)!r}")
    return array


def one_length(name: str, value: float) -> float:
    """Return the argument `name`, a single distance of at least 0, which may be infinite."""
    length = reals(name, value)
    if length.ndim or not length >= 0.0:
        raise ValueError(f"{name} must be a number of at least 0, got {value!r}")
    return float(length)


def corner_points(lower: ArrayLike, upper: ArrayLike) -> list[NDArray[np.float64]]:
    """Return corners of boxes as float64 of shape (..., 3); raise for a single inverted box."""
    low, high = points("lower", lower), points("upper", upper)
    # For three numbers, lists are faster than arrays.
    if low.ndim == high.ndim == 1 and any(map(operator.gt, low.tolist(), high.tolist())):
        got = f"{low.tolist()} and {high.tolist()}"
        raise ValueError(f"lower must not be above upper on any axis, got {got}")
    return [low, high]


def flag(name: str, value: bool) -> bool:
    """Return the argument `name` if it is True or False; else raise a TypeError."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def truths(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    """Return the argument `name`, True or False or an array of them, as bool of its shape."""
    return _plain(name, value, "b", "True or False", quote=True).astype(np.bool_)


def label(name: str, value: str | None) -> str | None:
    """Return the argument `name` if it is a string or None; else raise a TypeError."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be a string or None, got {value!r}")
    return value


def is_masked(value: object) -> bool:
    """Return whether a value is a masked array of numpy's, without importing `numpy.ma`."""
    masked: Any = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def _plain(
    name: str, value: ArrayLike, kinds: str, expected: str, *, quote: bool = False
) -> NDArray[Any]:
    """Return the argument `name` as an array of some kinds of numbers; an empty one of any kind.

    `kinds` are letters of `dtype.kind`. Errors say that the argument must be `expected`; with
    `quote`, they show its value instead of its type.
    """
    if is_masked(value):
        raise TypeError(f"{name} must not be a masked array: fill or drop the masked rows first")
    if value is None:
        raise TypeError(f"{name} must be an array, got None")
    if type(value) not in ORDINARY and is_other(value):
        value = as_numpy(name, value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must be a regular array: {error}") from None
    if array.dtype.kind not in kinds and array.size:
        got = repr(value) if quote else f"an array of {array.dtype}"
        raise TypeError(f"{name} must be {expected}, got {got}")
    return array


def _limited(name: str, array: NDArray[Any], most: int) -> NDArray[Any]:
    """Return the argument `name`; raise if it has more than `most` rows."""
    if len(array) > most:
        raise ValueError(f"{name} must have at most {most} rows, got {len(array)}")
    return array
