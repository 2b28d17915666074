"""Calls of kernels from Python: a built-in function takes arguments apart, and calls by address.

Numba compiles such a function for each kernel. This is one for all, `invoke`. It is used as one
built-in function for each structure of arguments, and each has memory of its own with a *program*,
made from the first arguments of that structure (see `words.program_of`). A call

1. runs the program, whose steps compare the arguments with what the kernel takes, and write them as
   words on the stack; arguments that do not fit end the call with NotImplemented;
2. releases the GIL and calls the kernel with the address of these words;
3. makes Python's objects of the results, or raises the exception of a user's function.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from bvh.runtime.calls import python_calls as calls
from bvh.runtime.calls import words
from bvh.runtime.calls.linked import Specialisation
from bvh.runtime.calls.python_calls import F8, I4, I8, call_c, word_at
from bvh.runtime.jit import inlined, kernel, method
from bvh.runtime.simd import peek, pointer_to, poke
from bvh.runtime.tuple_references import stack_memory

Call = Callable[..., Any]

# Most words and nested tuples of the arguments of `invoke`, and the memory on its stack for them.
MOST_WORDS, MOST_TUPLES = 512, 64
WORD_BYTES, TUPLE_BYTES = 8 * MOST_WORDS, 16 * MOST_TUPLES

# The function's own memory, from OWN on: the address of the kernel; the address of the program and
# the number of its steps; the number of arguments; the number of words before them; the address of
# the kinds of results, and whether these are returned in a tuple;
KERNEL, PROGRAM, STEPS, GIVEN, BEGIN, KINDS, IN_TUPLE = range(calls.OWN, calls.OWN + 7)
# then objects that it compares with, returns or calls, and the words of the dtypes uint8 and bool.
NOT_IMPLEMENTED, RAISE, INT64, DOUBLE, TRUE, FALSE, TRUE8, FALSE8, BYTE, BOOL = range(
    calls.OWN + 7, calls.OWN + 17
)

# Flags of an array that is in C order and aligned.
PLAIN = 0x101
# Mask that omits the flags from the word of a dtype that has its kind, character, byte order, flags
# and number.
DTYPE_MASK = np.int64(~0xFF000000)


@inlined
def _read_array(memory, obj, dtype, axes, kernel_words, at):
    """Write the address and shape of an array to kernel_words[at:]; return whether it fits.

    The object at the address `obj` must be an array in C order, aligned, with `axes` axes and a
    dtype whose word is `dtype` (see DTYPE_MASK). `memory` is that of `invoke`.
    """
    # See `python_calls.OFFSETS`; behind its head, a dtype has at byte 8 its word.
    kind, content = calls.type_of(memory, obj), obj + peek(memory, calls.HEAD)
    is_array = kind == peek(memory, calls.ARRAY)
    if not (is_array or calls.is_subtype(memory, kind, peek(memory, calls.ARRAY))):
        return False
    if peek(pointer_to(content + 8, I4), 0) != axes or word_at(content + 48) & PLAIN != PLAIN:
        return False
    found = word_at(word_at(content + 40) + peek(memory, calls.HEAD) + 8) & DTYPE_MASK
    # A kernel of bytes also takes truths.
    as_bytes = found == peek(memory, BOOL) and dtype == peek(memory, BYTE)
    if found != dtype and not as_bytes:
        return False
    poke(kernel_words, at, word_at(content))
    shape = pointer_to(word_at(content + 16), I8)
    for axis in range(axes):
        poke(kernel_words, at + 1 + axis, peek(shape, axis))
    return True


@inlined
def _read_number(memory, obj, operation, expected, size):
    """Return (fits, word): whether an object is a number that a step takes, and its word.

    The step is (operation, expected, size), as from `words.program_of`: the kind of number, and for
    numpy's scalars the address of their type, and their bytes. `obj` is the object's address.
    """
    kind, content = calls.type_of(memory, obj), obj + peek(memory, calls.HEAD)
    if operation == words.INTEGER and kind == peek(memory, calls.INTEGER):
        return True, calls.as_int(memory, obj)
    if operation == words.INTEGER and kind == peek(memory, INT64):
        return True, word_at(content)
    if operation == words.FLOAT and (
        kind == peek(memory, calls.FLOAT) or kind == peek(memory, DOUBLE)
    ):
        return True, word_at(content)
    if operation == words.TRUTH:
        true = obj == peek(memory, TRUE) or obj == peek(memory, TRUE8)
        false = obj == peek(memory, FALSE) or obj == peek(memory, FALSE8)
        return true or false, np.int64(true)
    if operation == words.SCALAR and kind == expected:
        # The bytes that follow a scalar of fewer than 8 may be of something else.
        mask = (np.int64(1) << 8 * size) - 1 if size < 8 else np.int64(-1)
        return True, word_at(content) & mask
    return False, np.int64(0)


@kernel
def _take_apart(memory, given, kernel_words):
    """Write the arguments to `kernel_words`; return whether they fit the program in `memory`.

    `given` is the address of their addresses. A step of the program is (operation, expected,
    number): see `words.program_of`.
    """
    # The stack has two words for each tuple that is being read, and first for all arguments: the
    # address of the next item, and how many are left.
    stack, level = pointer_to(stack_memory(TUPLE_BYTES), I8), np.int64(0)
    steps, at = pointer_to(peek(memory, PROGRAM), I8), peek(memory, BEGIN)
    poke(stack, 0, given)
    poke(stack, 1, peek(memory, GIVEN))
    for step in range(peek(memory, STEPS)):
        # Leave tuples that have no items left.
        while peek(stack, 2 * level + 1) == 0:
            level -= 1
        place = peek(stack, 2 * level)
        poke(stack, 2 * level, place + 8)
        poke(stack, 2 * level + 1, peek(stack, 2 * level + 1) - 1)
        obj = word_at(place)
        operation, expected = peek(steps, 3 * step), peek(steps, 3 * step + 1)
        number = peek(steps, 3 * step + 2)
        if operation == words.TUPLE:
            kind = calls.type_of(memory, obj)
            is_tuple = kind == expected or kind == peek(memory, calls.TUPLE)
            if not is_tuple or word_at(obj + peek(memory, calls.HEAD)) != number:
                return False
            level += 1
            poke(stack, 2 * level, obj + peek(memory, calls.ITEMS))
            poke(stack, 2 * level + 1, number)
        elif operation == words.ARRAY:
            if not _read_array(memory, obj, expected, number, kernel_words, at):
                return False
            at += 1 + number
        elif operation == words.OBJECT:
            if obj != expected:
                return False
        else:
            fits, value = _read_number(memory, obj, operation, expected, number)
            if not fits:
                return False
            poke(kernel_words, at, value)
            at += 1
    return True


@kernel
def _new_number(memory, kind, place):
    """Return the result at the address `place` as an object of its kind; 0 after an exception."""
    if kind == words.FLOAT:
        return calls.new_float(memory, peek(pointer_to(place, F8), 0))
    if kind == words.INTEGER:
        return calls.new_int(memory, word_at(place))
    return calls.new_bool(memory, word_at(place))


@kernel
def _returned(memory, address):
    """Return the results in a kernel's words, at an address, as an object; 0 after an exception."""
    # Before the arguments are BEGIN words: RESULTS for status and error, then the results.
    count, kinds = peek(memory, BEGIN) - words.RESULTS, pointer_to(peek(memory, KINDS), I8)
    if count == 0:
        return calls.new_reference(memory, calls.NONE)
    if peek(memory, IN_TUPLE) == 0:
        return _new_number(memory, peek(kinds, 0), address + 8 * words.RESULTS)
    made = calls.new_tuple(memory, count)
    for i in range(count if made != 0 else 0):
        part = _new_number(memory, peek(kinds, i), address + 8 * (words.RESULTS + i))
        if part == 0:
            calls.decref(memory, made)
            return np.int64(0)
        calls.set_item(memory, made, i, part)
    return made


@kernel
def _failed(memory, kernel_words):
    """Raise the exception of a kernel in Python, by a call of `words.raise_error`; return 0."""
    given = calls.new_tuple(memory, 2)
    if given != 0:
        calls.set_item(memory, given, 0, calls.new_int(memory, peek(kernel_words, words.STATUS)))
        calls.set_item(memory, given, 1, calls.new_int(memory, peek(kernel_words, words.ERROR)))
        calls.call_object(memory, peek(memory, RAISE), given)
        calls.decref(memory, given)
    return np.int64(0)


@method
def invoke(owner, given, count, names):
    """Call a kernel with objects; return its results, or NotImplemented if they do not fit.

    `owner` is the address of a `MethodMemory`, and `given` that of the addresses of `count`
    arguments. `names`, of named arguments, must be 0.
    """
    memory, address = calls.memory_of(owner), stack_memory(WORD_BYTES)
    kernel_words = pointer_to(address, I8)
    fits = names == 0 and count == peek(memory, GIVEN) and _take_apart(memory, given, kernel_words)
    # An integer beyond int64 has set an OverflowError.
    if calls.error_occurred(memory) != 0:
        return np.int64(0)
    if not fits:
        return calls.new_reference(memory, NOT_IMPLEMENTED)
    thread_state = calls.release_gil(memory)
    call_c(peek(memory, KERNEL), (address,), I8)
    calls.restore_gil(memory, thread_state)
    if peek(kernel_words, words.STATUS) != 0:
        return _failed(memory, kernel_words)
    return _returned(memory, address)


def called_from_python(target: Specialisation, arguments: tuple[Any, ...]) -> Call | None:
    """Return a built-in function that calls the kernel `target`, or None.

    The function takes arguments of the structure of `arguments`, and returns NotImplemented for
    others. None for too many arguments, for results other than int64, float64 and bool, and where
    methods cannot read Python's objects (see `known_types`).
    """
    # The first step is that of the tuple of all arguments.
    (_, _, count), *program = words.program_of(arguments)
    begin = words.RESULTS + len(target.results)
    # At least as many words as the arguments take.
    size = begin + sum(1 + number for operation, _, number in program if operation != words.TUPLE)
    can_read, can_return = calls.known_types()[0] != 0, set(target.results) <= words.TYPES.keys()
    tuples = sum(operation == words.TUPLE for operation, *_ in program)
    if not (can_read and can_return) or size > MOST_WORDS or tuples >= MOST_TUPLES:
        return None
    steps = np.array([(step, _operand(like), number) for step, like, number in program], np.int64)
    kinds = np.array([words.TYPES[result] for result in target.results], np.int64)
    # In the order of KERNEL to BOOL. The last item is not read, but kept alive.
    contents = (
        target.address, steps.ctypes.data, len(program), count, begin, kinds.ctypes.data,
        int(target.in_tuple), NotImplemented, words.raise_error, np.int64, np.float64, True, False,
        np.True_, np.False_, _operand(np.dtype(np.uint8)), _operand(np.dtype(np.bool_)),
        (target, program, steps, kinds),
    )  # fmt: skip
    return calls.new_function(invoke, "kernel(*arguments)\n--\n\n", contents)


def _operand(like: object) -> int:
    """Return what a step compares with: of a dtype its word, of other objects their address."""
    if not isinstance(like, np.dtype):
        return id(like)
    # After the head: 8 bytes for the type of its scalars, then the word (see DTYPE_MASK).
    return ctypes.c_int64.from_address(id(like) + calls.OFFSETS[0] + 8).value & int(DTYPE_MASK)
