"""Built-in functions made of kernels, which take and return Python's objects.

Numba's entries take arguments from a tuple and make one of the results; with a Python function
around them, that takes longer than a ray. A *method* is a kernel with the calling convention of
built-in functions (METH_FASTCALL | METH_KEYWORDS): it is given the addresses of objects, reads
floats where tuples, lists and arrays have them in memory, and makes its result by functions of
Python's C interface. `new_function` makes the built-in function; its `self` is a `MethodMemory`,
which leads the kernel to words of memory: types to recognise, functions to call, its own data.
The methods are `invocation.invoke`, which calls any kernel, `prepared_calls.call_prepared`, and
those of `traversal.rays.one_ray`.

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
from bvh.runtime.compiler.lazy_modules import cgutils, ir, types
from bvh.runtime.jit import Dispatcher, address_of, inlined, kernel, llvm_operation
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
def call_c(typingctx, function, arguments, like):
    """Call the C function at an address with a tuple of numbers; return a number like `like`.

    After a C function without a result, the number is undefined.
    """
    # C leaves open how a truth is extended to 64 bits, so truths are passed as integers.
    kinds = [types.int64 if kind == types.boolean else types.unliteral(kind) for kind in arguments]

    def codegen(context, builder, sig, args):
        values = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(context.get_value_type(like), [value.type for value in values])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)

    return like(types.int64, types.Tuple(kinds), like), codegen


def _api(name: str, result: Any) -> Any:
    """Return a function (memory, *arguments), for kernels, that calls `name` of Python's C API.

    `memory` is that of a method. Objects are passed and returned as addresses; `result` is any
    number of the type that `name` returns.
    """
    place = API + len(_functions)
    _functions.append(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)

    @inlined
    def call(memory, *arguments):
        return call_c(peek(memory, place), arguments, result)

    return call


as_float, _compare = _api("PyFloat_AsDouble", F8), _api("PyUnicode_Compare", I4)
as_int, is_subtype = _api("PyLong_AsLongLong", I8), _api("PyType_IsSubtype", I4)
call_object = _api("PyObject_CallObject", I8)
_item, _size = _api("PyTuple_GetItem", I8), _api("PyTuple_Size", I8)
# `error_occurred` returns 0 unless an exception is set; `set_error` sets one, by type and value.
error_occurred, set_error = _api("PyErr_Occurred", I8), _api("PyErr_SetObject", I8)
incref, decref = _api("Py_IncRef", I8), _api("Py_DecRef", I8)
# `release_gil` returns the thread's state, which `restore_gil` takes.
release_gil, restore_gil = _api("PyEval_SaveThread", I8), _api("PyEval_RestoreThread", I8)
# These return a new object, or the dict of an object's fields; 0 with an exception.
new_float, new_int = _api("PyFloat_FromDouble", I8), _api("PyLong_FromLongLong", I8)
new_bool, new_tuple = _api("PyBool_FromLong", I8), _api("PyTuple_New", I8)
new_instance, fields_of = _api("PyType_GenericAlloc", I8), _api("PyObject_GenericGetDict", I8)
# `set_item` takes over the caller's reference to the item; `set_field` adds one of its own.
set_item, set_field = _api("PyTuple_SetItem", I4), _api("PyDict_SetItem", I4)
OWN = API + len(_functions)

# Mark before the address of the memory, in the object that a method belongs to.
MARK = np.int64(0x7B76_6820_776F_7264)


class MethodMemory(bytes):
    """The address of a method's memory, after a mark; keeps the memory alive."""

    references: Any  # the memory, and the objects whose addresses it has


class _Definition(ctypes.Structure):
    """`PyMethodDef` of Python's C interface."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]  # fmt: skip


# METH_FASTCALL | METH_KEYWORDS; such a function has four arguments: self, the address of the
# arguments' addresses, how many of these have no names, and the tuple of the others' names.
FLAGS, ARGUMENTS = 0x82, 4
_new = ctypes.pythonapi.PyCFunction_NewEx
_new.argtypes = [ctypes.POINTER(_Definition), ctypes.py_object, ctypes.c_void_p]
_new.restype = ctypes.py_object
# Functions refer to these as long as they live.
_definitions: dict[tuple[Dispatcher, str], _Definition] = {}


def new_function(
    method: Dispatcher, doc: str, contents: Sequence[object],
    memory_class: type[MethodMemory] = MethodMemory,
) -> Callable[..., Any]:  # fmt: skip
    """Return a method as a built-in function, bound to an object of the class `memory_class`.

    The first call for a method compiles it, unless it is linked. `contents` are written to its
    memory from OWN on: integers as they are, and addresses of other objects. `doc` begins with the
    function's name and signature, and ends with the lines by which `inspect` finds the signature.
    """
    key = method, doc
    if key not in _definitions:
        address = linked_method(method.py_func) or address_of(method, (types.int64,) * ARGUMENTS)
        name = doc.partition("(")[0]
        # If two threads make it at the same time, both use the one that is stored first.
        _definitions.setdefault(key, _Definition(name.encode(), address, FLAGS, doc.encode()))
    # Signatures have 1e999 for infinity, as `inspect` reads literals only.
    message = "arguments must be those of " + doc.partition("\n")[0].replace("1e999", "inf")
    objects = None, TypeError, message, *_functions, *contents
    words = [x if type(x) is int else id(x) for x in objects]
    array = np.array([*OFFSETS, *known_types(), *words], np.int64)
    memory = memory_class(np.array((MARK, array.ctypes.data), np.int64).tobytes())
    memory.references = array, objects
    made: Callable[..., Any] = _new(ctypes.byref(_definitions[key]), memory, None)
    return made


# Bytes of the head of an object, and of that of a tuple, before its items. A head ends with the
# address of the type. At bytes behind it are the value of a float; 0 the size of a tuple; 0 the
# size of a list, 8 the address of its items; 0 the data of an array, 8 number of axes, 16 shape,
# 24 strides, 40 dtype, 48 flags.
OFFSETS = object.__basicsize__, tuple.__basicsize__


@lru_cache(maxsize=1)
def known_types() -> list[int]:
    """Return the addresses by which methods recognise objects, in the order from FLOAT to INTEGER.

    These are the types float, tuple, list and ndarray, the dtype float64, and the type int. They
    are zeros if objects do not have their parts where `OFFSETS` says.
    """
    # Without the GIL, another thread may change a list while it is read: none is recognised.
    listed = 0 if sysconfig.get_config_var("Py_GIL_DISABLED") else id(list)
    known = [id(float), id(tuple), listed, id(np.ndarray), id(np.dtype(np.float64)), id(int)]
    return known if _parts_are_as_expected() else [0] * len(known)


def _parts_are_as_expected() -> bool:
    """Return whether a float, a tuple, a list and an array have their parts as `OFFSETS` says."""
    number, array = 0.625, np.arange(3.0)
    three = number, 1.5, 2.5
    same, items = [*three], [*map(id, three)]
    head, first = OFFSETS
    content = id(array) + head

    def has(address: int, *words: int) -> bool:
        return _words(address, len(words)) == [*words]

    # An int of C, of 32 bits.
    def int_at(address: int) -> int:
        return _words(address, 1)[0] & 0xFFFFFFFF

    return (
        has(id(number) + head - 8, id(float), np.float64(number).view(np.int64).item())
        and has(id(three) + head - 8, id(tuple), len(three))
        and has(id(three) + first, *items)
        and has(id(same) + head - 8, id(list), len(same))
        and has(_words(id(same) + head + 8, 1)[0], *items)
        and has(content - 8, id(np.ndarray), array.ctypes.data)
        and int_at(content + 8) == array.ndim
        and has(_words(content + 16, 1)[0], *array.shape)
        and has(_words(content + 24, 1)[0], *array.strides)
        and has(content + 40, id(array.dtype))
        and int_at(content + 48) == array.flags.num
    )


def _words(address: int, count: int) -> list[int]:
    """Return `count` words at an address."""
    return [*(ctypes.c_int64 * count).from_address(address)]


@inlined
def memory_of(owner):
    """Return a pointer to the memory of a method; `owner` is the address of its `MethodMemory`."""
    at, obj = 2, pointer_to(owner, I8)
    # The header before the content of `bytes`, of at least two words, depends on Python's version:
    # search for the mark.
    while peek(obj, at) != MARK:
        at += 1
    return pointer_to(peek(obj, at + 1), I8)


@inlined
def word_at(address):
    """Return the word at an address."""
    return peek(pointer_to(address, I8), 0)


@inlined
def new_reference(memory, place):
    """Return the object whose address is memory[place], after adding a reference to it."""
    obj = peek(memory, place)
    incref(memory, obj)
    return obj


@inlined
def type_of(memory, obj):
    """Return the address of the type of the object at the address `obj`."""
    return word_at(obj + peek(memory, HEAD) - 8)


@inlined
def read_float(memory, obj, numbers, at):
    """Write the value of the float at the address `obj` to numbers[at]; return False for others."""
    valid = type_of(memory, obj) == peek(memory, FLOAT)
    if valid:
        poke(numbers, at, peek(pointer_to(obj + peek(memory, HEAD), F8), 0))
    return valid


@kernel
def read_three(memory, obj, numbers, at):
    """Write three floats of a tuple, list or array from numbers[at] on; return False for others."""
    # For the offsets from `content`, see `OFFSETS`.
    kind, content, items = type_of(memory, obj), obj + peek(memory, HEAD), np.int64(0)
    if kind == peek(memory, ARRAY):
        axes, flags = peek(pointer_to(content + 8, I4), 0), word_at(content + 48)
        if axes != 1 or flags & ALIGNED == 0 or word_at(word_at(content + 16)) != 3:
            return False
        if word_at(content + 40) != peek(memory, FLOAT64):
            return False
        data, step = word_at(content), word_at(word_at(content + 24))
        for i in range(3):
            poke(numbers, at + i, peek(pointer_to(data + i * step, F8), 0))
        return True
    if kind == peek(memory, TUPLE):
        items = obj + peek(memory, ITEMS)
    elif kind == peek(memory, LIST):
        items = word_at(content + 8)
    valid = items != 0 and word_at(content) == 3
    if valid:
        for i in range(3):
            valid &= read_float(memory, word_at(items + 8 * i), numbers, at + i)
    return valid


@inlined
def _index_of(memory, name, first, count):
    """Return the index of a name among `count` names from memory[first] on; `count` if absent."""
    i = np.int64(0)
    while i < count and _compare(memory, name, peek(memory, first + i)) != 0:
        i += 1
    return i


@kernel
def read_numbers(memory, first, given, count, names, numbers, least, most):
    """Write float arguments to `numbers` in the order of parameters; False if an exception was set.

    The function has `most` parameters, whose names are in `memory` from the word `first` on; all
    but the first `least` are optional. `given` has the addresses of arguments: `count` without
    names, then those whose names are in the tuple at `names`, which is 0 if there are none.
    """
    seen, valid = np.int64(0), True  # bits of the parameters given so far
    named = _size(memory, names) if names != 0 else 0
    for k in range(count + named):
        i = np.int64(k)
        if k >= count:
            i = _index_of(memory, _item(memory, names, k - count), first, most)
        # Too many arguments, an unknown name, or a parameter given twice.
        if i >= most or seen >> i & 1:
            valid = False
        else:
            seen |= np.int64(1) << i
            poke(numbers, i, as_float(memory, peek(given, k)))
    required = (np.int64(1) << least) - 1
    if not valid or seen & required != required:
        set_error(memory, peek(memory, TYPE_ERROR), peek(memory, MESSAGE))
    return error_occurred(memory) == 0
