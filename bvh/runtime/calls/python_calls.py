"""Calls of kernels as built-in functions of Python, which take and return objects.

Numba's entries take arguments from a tuple and make one of the results; with a Python function
around them, that takes longer than a ray. A *method* is a kernel with the calling convention of
built-in functions: it is given the addresses of objects, reads floats where tuples, lists and
arrays have them in memory, and makes its result by functions of Python's C interface.

`known_types` checks on some objects that their parts are where they are expected. If not, no object
is recognised, and callers read the numbers themselves.
"""

import ctypes
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bvh.runtime.calls.linked import linked_method
from bvh.runtime.compiler.code_types import Operation, Type, TypingContext
from bvh.runtime.compiler.lazy_modules import cgutils, ir, types
from bvh.runtime.jit import Dispatcher, c_address, inlined, kernel, llvm_operation
from bvh.runtime.simd import peek, pointer_to, poke

I4, I8, F8 = np.int32(0), np.int64(0), 0.0
# The flag of an array whose numbers are at multiples of their size.
ALIGNED = 0x100

# Layout of a method's memory, in words of 8 bytes: `OFFSETS`; the addresses that `known_types`
# returns, and those of other objects; from API on, addresses of functions of Python's C interface;
# from OWN on, what `new_function` is given.
HEAD, ITEMS, FLOAT, TUPLE, LIST, ARRAY, FLOAT64, INTEGER, NONE, TYPE_ERROR, MESSAGE, API = range(12)
_functions: list[int] = []


@llvm_operation
def call_c(typingctx: TypingContext, function: Type, arguments: Type, like: Type) -> Operation:
    """Call the C function at an address with a tuple of numbers; return one of the type of `like`.

    The result of a function that has none is undefined.
    """
    # C leaves open how a truth is extended to 64 bits, so truths are passed as integers.
    kinds = [types.int64 if kind == types.boolean else types.unliteral(kind) for kind in arguments]

    def codegen(context, builder, sig, args):
        values = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(context.get_value_type(like), [value.type for value in values])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)

    return like(types.int64, types.Tuple(kinds), like), codegen


def _api(name: str, result: Any) -> Any:
    """Return a function (words, *arguments), for kernels, that calls `name` of Python's C API.

    `words` is the memory of a method. Objects are passed as addresses; the type of
    `result`, any number, is the type that is returned.
    """
    place = API + len(_functions)
    _functions.append(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)

    @inlined
    def call(words, *arguments):
        return call_c(peek(words, place), arguments, result)

    return call


as_float, _compare = _api("PyFloat_AsDouble", F8), _api("PyUnicode_Compare", I4)
as_int, is_subtype = _api("PyLong_AsLongLong", I8), _api("PyType_IsSubtype", I4)
call_object = _api("PyObject_CallObject", I8)
_item, _size = _api("PyTuple_GetItem", I8), _api("PyTuple_Size", I8)
# `failed` returns 0 unless an exception is set; `raise_error` sets one, by its type and value.
failed, raise_error = _api("PyErr_Occurred", I8), _api("PyErr_SetObject", I8)
retain, release = _api("Py_IncRef", I8), _api("Py_DecRef", I8)
# Between these two, the GIL is released; `go_on` is given what the first returned.
let_others_run, go_on = _api("PyEval_SaveThread", I8), _api("PyEval_RestoreThread", I8)
# These return a new object, or the dict of an object's fields; 0 with an exception.
new_float, new_int = _api("PyFloat_FromDouble", I8), _api("PyLong_FromLongLong", I8)
new_bool, new_tuple = _api("PyBool_FromLong", I8), _api("PyTuple_New", I8)
new_instance, fields_of = _api("PyType_GenericAlloc", I8), _api("PyObject_GenericGetDict", I8)
# `set_item` takes over the caller's reference to the item; `set_field` adds one of its own.
set_item, set_field = _api("PyTuple_SetItem", I4), _api("PyDict_SetItem", I4)
OWN = API + len(_functions)

# Mark before the address of the memory, in the object that a method belongs to.
MARK = np.int64(0x7B76_6820_776F_7264)


class Held(bytes):
    """The address of a method's memory, after a mark; keeps the memory alive."""

    references: Any  # the memory, and the objects whose addresses it has


class _Definition(ctypes.Structure):
    """`PyMethodDef` of Python's C interface."""

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
    method: Dispatcher, doc: str, contents: Sequence[object], held: type[Held] = Held
) -> Callable[..., Any]:
    """Return a method as a built-in function, which belongs to an object of the class `held`.

    The first call for a method compiles it, unless it is linked. `contents` are written to
    its memory from OWN on: integers as they are, and addresses of all else. `doc` begins with the
    function's name and signature, and ends as `inspect` needs it to find that.
    """
    key = method, doc
    if key not in _definitions:
        address = linked_method(method.py_func) or c_address(method, (types.int64,) * ARGUMENTS)
        name = doc.partition("(")[0]
        # If two threads make it at the same time, both use the one that is stored first.
        _definitions.setdefault(key, _Definition(name.encode(), address, FLAGS, doc.encode()))
    message = "arguments must be those of " + doc.partition("\n")[0].replace("1e999", "inf")
    objects = None, TypeError, message, *_functions, *contents
    words = [x if type(x) is int else id(x) for x in objects]
    array = np.array([*OFFSETS, *known_types(), *words], np.int64)
    memory = held(np.array((MARK, array.ctypes.data), np.int64).tobytes())
    memory.references = array, objects
    made: Callable[..., Any] = _new(ctypes.byref(_definitions[key]), memory, None)
    return made


# Bytes before an object's own parts, and before the items of a tuple. All objects begin with a
# counter and, last, the address of their type. Then come the value of a float; the size and the
# items of a tuple; the size of a list and the address of its items; data, number of axes, shape,
# strides, base, dtype and flags of an array.
OFFSETS = object.__basicsize__, tuple.__basicsize__


@lru_cache(maxsize=1)
def known_types() -> list[int]:
    """Return the addresses that methods recognise objects by, from FLOAT to INTEGER.

    They are zeros if objects do not have their parts where `OFFSETS` says.
    """
    number, array, dtype = 0.625, np.arange(3.0), np.dtype(np.float64)
    three = number, 1.5, 2.5
    head, first = OFFSETS
    some, items, flat = [*three], [*map(id, three)], id(array) + head
    # Words expected at addresses; `behind`: at addresses that are stored there; `halves`: number of
    # axes and flags, of 4 bytes each.
    parts = {
        id(number) + head - 8: [id(float), np.float64(number).view(np.int64).item()],
        id(three) + head - 8: [id(tuple), 3], id(three) + first: items,
        id(some) + head - 8: [id(list), 3], flat - 8: [id(np.ndarray), array.ctypes.data],
        flat + 40: [id(dtype)],
    }  # fmt: skip
    behind = {id(some) + head + 8: items, flat + 16: [3], flat + 24: [8]}
    halves = [_words(flat + at, 1)[0] & 0xFFFFFFFF for at in (8, 48)]
    as_expected = all(_words(at, len(words)) == words for at, words in parts.items())
    as_expected = as_expected and halves == [1, array.flags.num]
    as_expected = as_expected and all(
        _words(_words(at, 1)[0], len(x)) == x for at, x in behind.items()
    )
    # Without the GIL, another thread may change a list meanwhile.
    listed = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else id(list)
    types_of_objects = [id(float), id(tuple), listed, id(np.ndarray), id(dtype), id(int)]
    return types_of_objects if as_expected else [0] * len(types_of_objects)


def _words(at: int, count: int) -> list[int]:
    """Return `count` words at an address."""
    return [*(ctypes.c_int64 * count).from_address(at)]


@inlined
def words_of(held):
    """Return a pointer to the memory of a method; `held` is the address of its `Held`."""
    at, thing = 2, pointer_to(held, I8)
    # The header before the content of `bytes` depends on Python's version: search for the mark.
    while peek(thing, at) != MARK:
        at += 1
    return pointer_to(peek(thing, at + 1), I8)


@inlined
def word(at):
    """Return the word at an address."""
    return peek(pointer_to(at, I8), 0)


@inlined
def type_of(words, thing):
    """Return the address of the type of an object."""
    return word(thing + peek(words, HEAD) - 8)


@inlined
def read_float(words, thing, numbers, at):
    """Write the value of a float to numbers[at]; return False if `thing` is not a float."""
    valid = type_of(words, thing) == peek(words, FLOAT)
    if valid:
        poke(numbers, at, peek(pointer_to(thing + peek(words, HEAD), F8), 0))
    return valid


@kernel
def read_three(words, thing, numbers, at):
    """Write three floats of a tuple, list or array from numbers[at] on; return False for others."""
    kind, part, items = type_of(words, thing), thing + peek(words, HEAD), np.int64(0)
    if kind == peek(words, ARRAY):
        axes, flags = peek(pointer_to(part + 8, I4), 0), word(part + 48)
        readable = axes == 1 and flags & ALIGNED != 0
        if not readable or word(part + 40) != peek(words, FLOAT64) or word(word(part + 16)) != 3:
            return False
        data, step = word(part), word(word(part + 24))
        for i in range(3):
            poke(numbers, at + i, peek(pointer_to(data + i * step, F8), 0))
        return True
    if kind == peek(words, TUPLE):
        items = thing + peek(words, ITEMS)
    elif kind == peek(words, LIST):
        items = word(part + 8)
    valid = items != 0 and word(part) == 3
    if valid:
        for i in range(3):
            valid &= read_float(words, word(items + 8 * i), numbers, at + i)
    return valid


@kernel
def read_numbers(words, first, given, count, names, numbers, least, most):
    """Write arguments to memory, in the order of the names at `first`; False with an exception."""
    # `given` has the addresses of arguments, the first `count` without names; `names` is a tuple of
    # the names of the others, or 0. Of `most` parameters, those from `least` on are optional.
    seen, needed = np.int64(0), (np.int64(1) << least) - 1
    for k in range(count + (_size(words, names) if names != 0 else 0)):
        i = min(k, most) if k < count else np.int64(0)
        while (
            k >= count
            and i < most
            and _compare(words, _item(words, names, k - count), peek(words, first + i))
        ):
            i += 1
        # Too many arguments, an unknown name, or one given twice: -1 is never equal to `seen`.
        if i == most or seen >> i & 1:
            needed = np.int64(-1)
        else:
            seen |= np.int64(1) << i
            poke(numbers, i, as_float(words, peek(given, k)))
    if seen & needed != needed:
        raise_error(words, peek(words, TYPE_ERROR), peek(words, MESSAGE))
    return failed(words) == 0
