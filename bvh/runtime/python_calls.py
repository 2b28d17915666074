"""Calls of kernels from Python at the price of a built-in function's: objects in, objects out.

Numba's entries take arguments from a tuple and make one of the results; with a Python function
around them, that takes longer than a ray. A *method* is a kernel with the calling convention of
built-in functions: it is given the addresses of objects, reads floats where tuples, lists and
arrays have them in memory, and makes its result by functions of Python's C interface.

Where objects have their parts, `known_types` finds out by looking at some. Where they are not as
expected, no object is recognised, and callers take the numbers out themselves.
"""

import ctypes
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bvh.runtime.jit import Dispatcher, c_address, inlined, kernel, types
from bvh.runtime.simd import peek, pointer_to, poke

I4, I8, F8 = np.int32(0), np.int64(0), 0.0
# All objects begin with a counter and, last, the address of their type: then come the value of
# a float, the size and the items of a tuple, the size of a list and the address of its items; of an
# array data, number of axes, shape, strides, base, dtype and flags, of which one is ALIGNED.
HEAD, ITEMS = object.__basicsize__, tuple.__basicsize__
ALIGNED = 0x100

# What a method finds in memory: types, as `known_types` has them; objects; the names of arguments.
FLOAT, TUPLE, LIST, ARRAY, FLOAT64, NONE, TYPE_ERROR, MESSAGE, NAMES = range(9)


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return types.ExternalFunction(name, result(*arguments))


# Functions of Python's for kernels, which have addresses as integers.
_as_float = _api("PyFloat_AsDouble", types.float64, types.int64)
_error = _api("PyErr_Occurred", types.int64)
_raise = _api("PyErr_SetString", types.void, types.int64, types.int64)
_address = _api("PyLong_AsVoidPtr", types.int64, types.int64)
_compare = _api("PyUnicode_Compare", types.int32, types.int64, types.int64)
_item = _api("PyTuple_GetItem", types.int64, types.int64, types.int64)
_size = _api("PyTuple_Size", types.int64, types.int64)
new_tuple = _api("PyTuple_New", types.int64, types.int64)
_set_item = _api("PyTuple_SetItem", types.int32, types.int64, types.int64, types.int64)
new_instance = _api("PyType_GenericAlloc", types.int64, types.int64, types.int64)
fields_of = _api("PyObject_GenericGetDict", types.int64, types.int64, types.int64)
_set_field = _api("PyDict_SetItem", types.int32, types.int64, types.int64, types.int64)
retain = _api("Py_IncRef", types.void, types.int64)
release = _api("Py_DecRef", types.void, types.int64)
# Other threads may run between the two.
let_others_run = _api("PyEval_SaveThread", types.int64)
go_on = _api("PyEval_RestoreThread", types.void, types.int64)
# New objects, or 0 with an exception.
new_float = _api("PyFloat_FromDouble", types.int64, types.float64)
new_int = _api("PyLong_FromLongLong", types.int64, types.int64)
new_bool = _api("PyBool_FromLong", types.int64, types.int64)


class Held(int):
    """The address of what a method finds in memory, which it keeps alive."""

    kept: Any

    def __new__(cls, names: Sequence[str], message: str, words: Sequence[int], *kept: Any) -> Any:
        """Store NAMES, the message where arguments are others, and words behind them."""
        text = ctypes.create_string_buffer(message.encode())
        objects = id(None), id(TypeError), ctypes.addressof(text), *map(id, names)
        array = np.array([*known_types(), *objects, *words], np.int64)
        made = super().__new__(cls, array.ctypes.data)
        made.kept = array, text, names, kept
        return made


class _Definition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


# METH_FASTCALL | METH_KEYWORDS: (self, arguments, how many without names, names) -> result
FLAGS, ARGUMENTS = 0x82, (types.int64,) * 4
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.argtypes = [ctypes.POINTER(_Definition), ctypes.py_object, ctypes.c_void_p]
_new.restype = ctypes.py_object
# Functions refer to these as long as they live.
_definitions: dict[tuple[Dispatcher, str], _Definition] = {}


def new_function(method: Dispatcher, doc: str, held: Held) -> Callable[..., Any]:
    """Return the function that a method is with what it finds in memory; the first compiles it."""
    key = method, doc
    if key not in _definitions:
        address, name = c_address(method, ARGUMENTS), doc.partition("(")[0]
        _definitions[key] = _Definition(name.encode(), address, FLAGS, doc.encode())
    made: Callable[..., Any] = _new(ctypes.byref(_definitions[key]), held, None)
    return made


_known: list[int] = []


def known_types() -> list[int]:
    """Return the addresses of types whose objects methods can read; zeros if they cannot."""
    if not _known:
        number, array, dtype = 0.625, np.arange(3.0), np.dtype(np.float64)
        three = number, 1.5, 2.5
        some, items, flat = list(three), [*map(id, three)], id(array) + HEAD
        parts = {
            id(number) + HEAD - 8: [id(float), np.float64(number).view(np.int64).item()],
            id(three) + HEAD - 8: [id(tuple), 3], id(three) + ITEMS: items,
            id(some) + HEAD - 8: [id(list), 3], flat - 8: [id(np.ndarray), array.ctypes.data],
            flat + 40: [id(dtype)],
        }  # fmt: skip
        behind = {id(some) + HEAD + 8: items, flat + 16: [3], flat + 24: [8]}
        numbers = [_words(flat + at, 1)[0] & 0xFFFFFFFF for at in (8, 48)]
        found = all(_words(at, len(words)) == words for at, words in parts.items())
        found = found and numbers == [1, array.flags.num]
        found = found and all(_words(_words(at, 1)[0], len(x)) == x for at, x in behind.items())
        # Without the GIL, another thread may change a list meanwhile.
        listed = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else id(list)
        kinds = [id(float), id(tuple), listed, id(np.ndarray), id(dtype)]
        _known.extend(kinds if found else [0] * len(kinds))
    return _known


def _words(at: int, count: int) -> list[int]:
    return [*(ctypes.c_int64 * count).from_address(at)]


@inlined
def words_of(held):
    """Return what a method finds in memory."""
    return pointer_to(_address(held), I8)


@inlined
def read_float(words, thing, numbers, at):
    """Write a float to memory; return whether it is one."""
    known = peek(words, FLOAT)
    good = peek(pointer_to(thing + HEAD - 8, I8), 0) == known and known != 0
    if good:
        poke(numbers, at, peek(pointer_to(thing + HEAD, F8), 0))
    return good


@kernel
def read_three(words, thing, numbers, at):
    """Write the floats of a tuple, a list or an array of three to memory; False if it is none."""
    parts = pointer_to(thing + HEAD, I8)
    kind, items = peek(pointer_to(thing + HEAD - 8, I8), 0), np.int64(0)
    if kind == peek(words, ARRAY):
        axes, flags = peek(pointer_to(thing + HEAD + 8, I4), 0), np.int64(peek(parts, 6))
        if axes != 1 or flags & ALIGNED == 0 or peek(parts, 5) != peek(words, FLOAT64):
            return False
        if peek(pointer_to(peek(parts, 2), I8), 0) != 3:
            return False
        step = peek(pointer_to(peek(parts, 3), I8), 0)
        for i in range(3):
            poke(numbers, at + i, peek(pointer_to(peek(parts, 0) + i * step, F8), 0))
        return True
    if kind == peek(words, TUPLE):
        items = thing + ITEMS
    elif kind == peek(words, LIST):
        items = peek(parts, 1)
    if items == 0 or peek(parts, 0) != 3:
        return False
    good = True
    for i in range(3):
        good &= read_float(words, peek(pointer_to(items, I8), i), numbers, at + i)
    return good


@kernel
def read_numbers(words, given, count, names, numbers, least, most):
    """Write numbers to memory in the order of NAMES; return False with an exception."""
    # Those from `least` on need not be given.
    seen = (np.int64(1) << min(count, most + 1)) - 1
    for i in range(min(count, most)):
        poke(numbers, i, _as_float(peek(given, i)))
    for k in range(_size(names) if names != 0 else 0):
        i = np.int64(0)
        while i < most and _compare(_item(names, k), peek(words, NAMES + i)) != 0:
            i += 1
        # One that is unknown, or given twice, is one too many.
        seen |= np.int64(1) << (most if seen >> i & 1 else i)
        poke(numbers, min(i, most - 1), _as_float(peek(given, count + k)))
    needed = (np.int64(1) << least) - 1
    if seen & needed != needed or seen >> most != 0:
        _raise(peek(words, TYPE_ERROR), peek(words, MESSAGE))
    return _error() == 0


@inlined
def put_item(made, i, value):
    """Give a new tuple, or 0 for none, a new object; return whether both are there."""
    return made != 0 and _set_item(made, i, value) == 0 and value != 0


@inlined
def put_field(fields, name, value):
    """Give a new object's fields, or 0 for none, a new value; return whether both are there."""
    good = value != 0 and fields != 0 and _set_field(fields, name, value) == 0
    if value != 0:
        release(value)
    return good
