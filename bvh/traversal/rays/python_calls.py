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
from functools import lru_cache
from typing import Any

import numpy as np

from bvh.runtime.compiler.deferred import Deferred
from bvh.runtime.compiler.lazy_modules import type_of_kind, types
from bvh.runtime.jit import Dispatcher, c_address, inlined, kernel
from bvh.runtime.simd import peek, pointer_to, poke

I4, I8, F8 = np.int32(0), np.int64(0), 0.0
# All objects begin with a counter and, last, the address of their type: then come the value of
# a float, the size and the items of a tuple, the size of a list and the address of its items; of an
# array data, number of axes, shape, strides, base, dtype and flags, of which one is ALIGNED.
HEAD, ITEMS, ALIGNED = object.__basicsize__, tuple.__basicsize__, 0x100

# What a method finds in memory: addresses of types, those of `known_types`, and of other objects;
# from OWN on, what it is given by `new_function`.
FLOAT, TUPLE, LIST, ARRAY, FLOAT64, NONE, TYPE_ERROR, MESSAGE, OWN = range(9)


def _api(name: str, result: Any, *arguments: Any) -> Any:
    def make(_: object) -> Any:
        kind = types.void if result is None else type_of_kind(result)
        return types.ExternalFunction(name, kind(*map(type_of_kind, arguments)))

    return Deferred(make, make)


# Functions of Python's for kernels, with addresses as integers.
_ID, _VOID = np.int64, None
_as_float = _api("PyFloat_AsDouble", np.float64, _ID)
_error, _raise = _api("PyErr_Occurred", _ID), _api("PyErr_SetObject", _VOID, _ID, _ID)
_address = _api("PyLong_AsVoidPtr", _ID, _ID)
_compare = _api("PyUnicode_Compare", np.int32, _ID, _ID)
_item, _size = _api("PyTuple_GetItem", _ID, _ID, _ID), _api("PyTuple_Size", _ID, _ID)
retain, release = _api("Py_IncRef", _VOID, _ID), _api("Py_DecRef", _VOID, _ID)
# Between the two, other threads may run.
let_others_run, go_on = _api("PyEval_SaveThread", _ID), _api("PyEval_RestoreThread", _VOID, _ID)
# New objects, and the fields of one, or 0 with an exception.
new_float, new_int = (
    _api("PyFloat_FromDouble", _ID, np.float64),
    _api("PyLong_FromLongLong", _ID, _ID),
)
new_bool, new_tuple = _api("PyBool_FromLong", _ID, _ID), _api("PyTuple_New", _ID, _ID)
new_instance = _api("PyType_GenericAlloc", _ID, _ID, _ID)
fields_of = _api("PyObject_GenericGetDict", _ID, _ID, _ID)
# The first takes a reference over, the other makes one more.
set_item = _api("PyTuple_SetItem", np.int32, _ID, _ID, _ID)
set_field = _api("PyDict_SetItem", np.int32, _ID, _ID, _ID)


class Held(int):
    """The address of what a method finds in memory, which is kept alive."""

    kept: Any


class _Definition(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


# METH_FASTCALL | METH_KEYWORDS: (self, arguments, how many without names, names) -> result
FLAGS, ARGUMENTS = 0x82, 4
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.argtypes = [ctypes.POINTER(_Definition), ctypes.py_object, ctypes.c_void_p]
_new.restype = ctypes.py_object
# Functions refer to these as long as they live.
_definitions: dict[tuple[Dispatcher, str], _Definition] = {}


def new_function(
    method: Dispatcher, doc: str, own: Sequence[object], held: type[Held] = Held
) -> Callable[..., Any]:
    """Return the function that a method is; the first compiles it.

    What it finds in memory from OWN on are integers, and the addresses of other objects; `doc`
    begins with its name and signature.
    """
    key = method, doc
    if key not in _definitions:
        address, name = c_address(method, (types.int64,) * ARGUMENTS), doc.partition("(")[0]
        # Of two threads that make it, both get what is kept.
        _definitions.setdefault(key, _Definition(name.encode(), address, FLAGS, doc.encode()))
    message = "arguments must be those of " + doc.partition("\n")[0].replace("1e999", "inf")
    objects = None, TypeError, message, *own
    words = [x if type(x) is int else id(x) for x in objects]
    array = np.array([*known_types(), *words], np.int64)
    memory = held(array.ctypes.data)
    memory.kept = array, objects
    made: Callable[..., Any] = _new(ctypes.byref(_definitions[key]), memory, None)
    return made


@lru_cache(maxsize=1)
def known_types() -> list[int]:
    """Return the addresses of types whose objects methods can read; zeros if they cannot."""
    number, array, dtype = 0.625, np.arange(3.0), np.dtype(np.float64)
    three = number, 1.5, 2.5
    some, items, flat = [*three], [*map(id, three)], id(array) + HEAD
    parts = {
        id(number) + HEAD - 8: [id(float), np.float64(number).view(np.int64).item()],
        id(three) + HEAD - 8: [id(tuple), 3], id(three) + ITEMS: items,
        id(some) + HEAD - 8: [id(list), 3], flat - 8: [id(np.ndarray), array.ctypes.data],
        flat + 40: [id(dtype)],
    }  # fmt: skip
    behind = {id(some) + HEAD + 8: items, flat + 16: [3], flat + 24: [8]}
    halves = [_words(flat + at, 1)[0] & 0xFFFFFFFF for at in (8, 48)]
    found = all(_words(at, len(words)) == words for at, words in parts.items())
    found = found and halves == [1, array.flags.num]
    found = found and all(_words(_words(at, 1)[0], len(x)) == x for at, x in behind.items())
    # Without the GIL, another thread may change a list meanwhile.
    listed = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else id(list)
    kinds = [id(float), id(tuple), listed, id(np.ndarray), id(dtype)]
    return kinds if found else [0] * len(kinds)


def _words(at: int, count: int) -> list[int]:
    return [*(ctypes.c_int64 * count).from_address(at)]


@inlined
def words_of(held):
    """Return what a method finds in memory."""
    return pointer_to(_address(held), I8)


@inlined
def _word(at):
    return peek(pointer_to(at, I8), 0)


@inlined
def read_float(words, thing, numbers, at):
    """Write a float to memory; return whether it is one."""
    good = _word(thing + HEAD - 8) == peek(words, FLOAT)
    if good:
        poke(numbers, at, peek(pointer_to(thing + HEAD, F8), 0))
    return good


@kernel
def read_three(words, thing, numbers, at):
    """Write the floats of a tuple, a list or an array of three to memory; False if it is none."""
    kind, items, good = _word(thing + HEAD - 8), np.int64(0), True
    if kind == peek(words, ARRAY):
        axes, flags = peek(pointer_to(thing + HEAD + 8, I4), 0), _word(thing + HEAD + 48)
        whole = axes == 1 and flags & ALIGNED != 0
        if not whole or _word(thing + HEAD + 40) != peek(words, FLOAT64):
            return False
        if _word(_word(thing + HEAD + 16)) != 3:
            return False
        data, step = _word(thing + HEAD), _word(_word(thing + HEAD + 24))
        for i in range(3):
            poke(numbers, at + i, peek(pointer_to(data + i * step, F8), 0))
        return True
    if kind == peek(words, TUPLE):
        items = thing + ITEMS
    elif kind == peek(words, LIST):
        items = _word(thing + HEAD + 8)
    if items == 0 or _word(thing + HEAD) != 3:
        return False
    for i in range(3):
        good &= read_float(words, _word(items + 8 * i), numbers, at + i)
    return good


@kernel
def read_numbers(words, first, given, count, names, numbers, least, most):
    """Write arguments to memory, in the order of the names at `first`; False with an exception."""
    # Those from `least` on need not be given.
    seen, needed = np.int64(0), (np.int64(1) << least) - 1
    for k in range(count + (_size(names) if names != 0 else 0)):
        i = min(k, most) if k < count else np.int64(0)
        while k >= count and i < most and _compare(_item(names, k - count), peek(words, first + i)):
            i += 1
        # One too many, or unknown; or given twice.
        if i == most or seen >> i & 1:
            needed = np.int64(-1)
        else:
            seen |= np.int64(1) << i
            poke(numbers, i, _as_float(peek(given, k)))
    if seen & needed != needed:
        _raise(peek(words, TYPE_ERROR), peek(words, MESSAGE))
    return _error() == 0
