"""Calls of kernels from Python: a built-in function takes arguments apart, and calls by address.

Numba compiles such a function for each kernel. This is one for all: a program, made from the first
arguments of a kernel, describes the arguments that it takes (see `words.program_of`).
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls import python_calls as calls
from bvh.runtime.calls.linked import Specialisation
from bvh.runtime.calls.python_calls import F8, I4, I8, call_c, word
from bvh.runtime.calls.words import (
    ARRAY,
    ERROR,
    FLOAT,
    INTEGER,
    OBJECT,
    RESULTS,
    STATUS,
    TRUTH,
    TUPLE,
    TYPES,
    program_of,
    raise_error,
    words_of,
)
from bvh.runtime.jit import kernel, method
from bvh.runtime.simd import peek, pointer_to, poke
from bvh.runtime.tuple_references import stack_memory

Call = Callable[..., Any]

# Most words and nested tuples of the arguments of `invoke`, and the memory on its stack for them.
MOST_WORDS, MOST_TUPLES = 512, 64
WORD_BYTES, TUPLE_BYTES = 8 * MOST_WORDS, 16 * MOST_TUPLES

# Layout of the function's own memory: address of the kernel, address of the program and number of
# its steps, number of arguments, number of words before them, address of the kinds of results, and
# whether these are returned in a tuple;
KERNEL, PROGRAM, STEPS, GIVEN, BEGIN, KINDS, IN_TUPLE = range(calls.OWN, calls.OWN + 7)
# then objects that it compares with, returns or calls, and the words of the dtypes uint8 and bool.
NOT_IMPLEMENTED, RAISE, INT64, DOUBLE, TRUE, FALSE, TRUE8, FALSE8, BYTE, BOOL = range(
    calls.OWN + 7, calls.OWN + 17
)

# Flags of an array that is in C order and aligned.
PLAIN = 0x101
# Mask of the word of a dtype that has its kind, character, byte order, flags and number: it omits
# the flags.
DTYPE = np.int64(~0xFF000000)


@kernel
def _take_apart(words, given, memory):
    """Write the words of the arguments at `given`; return whether they fit the program."""
    # The places of parts in objects are those of `python_calls.OFFSETS`.
    # The stack holds, for each tuple that is open, the address of its next item and how many are
    # left.
    stack, level = pointer_to(stack_memory(TUPLE_BYTES), I8), np.int64(0)
    steps, at = pointer_to(peek(words, PROGRAM), I8), peek(words, BEGIN)
    poke(stack, 0, given)
    poke(stack, 1, peek(words, GIVEN))
    for step in range(peek(words, STEPS)):
        while peek(stack, 2 * level + 1) == 0:
            level -= 1
        place = peek(stack, 2 * level)
        poke(stack, 2 * level, place + 8)
        poke(stack, 2 * level + 1, peek(stack, 2 * level + 1) - 1)
        operation, expected, number = (
            peek(steps, 3 * step),
            peek(steps, 3 * step + 1),
            peek(steps, 3 * step + 2),
        )
        item = word(place)
        kind, part = calls.type_of(words, item), item + peek(words, calls.HEAD)
        if operation == TUPLE:
            if (kind != expected and kind != peek(words, calls.TUPLE)) or word(part) != number:
                return False
            level += 1
            poke(stack, 2 * level, item + peek(words, calls.ITEMS))
            poke(stack, 2 * level + 1, number)
        elif operation == ARRAY:
            is_array = kind == peek(words, calls.ARRAY)
            if not (is_array or calls.is_subtype(words, kind, peek(words, calls.ARRAY))):
                return False
            axes = peek(pointer_to(part + 8, I4), 0)
            if axes != number or word(part + 48) & PLAIN != PLAIN:
                return False
            dtype = word(word(part + 40) + peek(words, calls.HEAD) + 8) & DTYPE
            as_bytes = dtype == peek(words, BOOL) and expected == peek(words, BYTE)
            if dtype != expected and not as_bytes:
                return False
            poke(memory, at, word(part))
            shape = pointer_to(word(part + 16), I8)
            for axis in range(number):
                poke(memory, at + 1 + axis, peek(shape, axis))
            at += 1 + number
        elif operation == OBJECT:
            if item != expected:
                return False
        else:
            if operation == INTEGER:
                if kind == peek(words, calls.INTEGER):
                    value = calls.as_int(words, item)
                elif kind == peek(words, INT64):
                    value = word(part)
                else:
                    return False
            elif operation == FLOAT:
                if kind != peek(words, calls.FLOAT) and kind != peek(words, DOUBLE):
                    return False
                value = word(part)
            elif operation == TRUTH:
                true = item == peek(words, TRUE) or item == peek(words, TRUE8)
                if not (true or item == peek(words, FALSE) or item == peek(words, FALSE8)):
                    return False
                value = np.int64(true)
            else:
                if kind != expected:
                    return False
                # A scalar of fewer than 8 bytes: those that follow may be of something else.
                value = word(part) & (
                    (np.int64(1) << 8 * number) - 1 if number < 8 else np.int64(-1)
                )
            poke(memory, at, value)
            at += 1
    return True


@kernel
def _new_number(words, kind, place):
    """Return the result at an address as an object of its kind, or 0 with an exception."""
    if kind == FLOAT:
        return calls.new_float(words, peek(pointer_to(place, F8), 0))
    return (
        calls.new_int(words, word(place)) if kind == INTEGER else calls.new_bool(words, word(place))
    )


@kernel
def _returned(words, address):
    """Return the results in the words at an address as an object, or 0 with an exception."""
    count, kinds = peek(words, BEGIN) - RESULTS, pointer_to(peek(words, KINDS), I8)
    if count == 0:
        calls.retain(words, peek(words, calls.NONE))
        return peek(words, calls.NONE)
    if peek(words, IN_TUPLE) == 0:
        return _new_number(words, peek(kinds, 0), address + 8 * RESULTS)
    made = calls.new_tuple(words, count)
    for i in range(count if made != 0 else 0):
        part = _new_number(words, peek(kinds, i), address + 8 * (RESULTS + i))
        if part == 0:
            calls.release(words, made)
            return np.int64(0)
        calls.set_item(words, made, i, part)
    return made


@kernel
def _failed(words, memory):
    """Raise the exception of a kernel; return 0."""
    given = calls.new_tuple(words, 2)
    if given != 0:
        calls.set_item(words, given, 0, calls.new_int(words, peek(memory, STATUS)))
        calls.set_item(words, given, 1, calls.new_int(words, peek(memory, ERROR)))
        calls.call_object(words, peek(words, RAISE), given)
        calls.release(words, given)
    return np.int64(0)


@method
def call_stored(held, given, count, names):
    """Call a kernel with stored arguments, and numbers: for single rays and points."""
    # Arguments of the function: the addresses that `First` and `Others` have, and numbers.
    words, arguments = calls.words_of(held), pointer_to(given, I8)
    first = pointer_to(calls.as_int(words, peek(arguments, 0)), I8)
    address = calls.as_int(words, peek(arguments, 1))
    others_words = pointer_to(address, I8)
    numbers = pointer_to(peek(others_words, 0), F8)
    for i in range(count - 2):
        poke(numbers, i, calls.as_float(words, peek(arguments, 2 + i)))
    if calls.failed(words) != 0:
        return np.int64(0)
    for i in range(peek(first, 1)):
        poke(others_words, 1 + RESULTS + i, peek(first, 2 + i))
    thread_state = calls.let_others_run(words)
    call_c(peek(first, 0), (address + 8,), I8)
    calls.go_on(words, thread_state)
    calls.retain(words, peek(words, calls.NONE))
    return peek(words, calls.NONE)


@method
def invoke(held, given, count, names):
    """Call a kernel with objects; return its results, or NotImplemented if they do not fit."""
    # As a built-in function: `given` has the addresses of `count` arguments; names are not allowed.
    words, address = calls.words_of(held), stack_memory(WORD_BYTES)
    memory = pointer_to(address, I8)
    fits = names == 0 and count == peek(words, GIVEN) and _take_apart(words, given, memory)
    if calls.failed(words) != 0:
        return np.int64(0)
    if not fits:
        calls.retain(words, peek(words, NOT_IMPLEMENTED))
        return peek(words, NOT_IMPLEMENTED)
    thread_state = calls.let_others_run(words)
    call_c(peek(words, KERNEL), (address,), I8)
    calls.go_on(words, thread_state)
    return _returned(words, address) if peek(memory, STATUS) == 0 else _failed(words, memory)


def called_from_python(kernel: Specialisation, arguments: tuple[Any, ...]) -> Call | None:
    """Return the function that calls a kernel for such arguments; None if they are too many.

    The function returns NotImplemented for arguments of another structure. There is none, either,
    where methods cannot read Python's objects.
    """
    (_, _, count), *program = program_of(arguments)
    begin = RESULTS + len(kernel.results)
    # At least as many words as the arguments take.
    size = begin + sum(1 + number for operation, _, number in program if operation != TUPLE)
    supported = all(result in TYPES for result in kernel.results) and calls.known_types()[0] != 0
    tuples = sum(operation == TUPLE for operation, *_ in program)
    if not supported or size > MOST_WORDS or tuples >= MOST_TUPLES:
        return None
    steps = np.array([(step, _word(like), number) for step, like, number in program], np.int64)
    kinds = np.array([TYPES[result] for result in kernel.results], np.int64)
    contents = (
        kernel.address, steps.ctypes.data, len(program), count, begin, kinds.ctypes.data,
        int(kernel.in_tuple), NotImplemented, raise_error, np.int64, np.float64, True, False,
        np.True_, np.False_, _word(np.dtype(np.uint8)), _word(np.dtype(np.bool_)),
        (kernel, program, steps, kinds),
    )  # fmt: skip
    return calls.new_function(invoke, "kernel(*arguments)\n--\n\n", contents)


def _word(like: object) -> int:
    """Return the operand of a step: of a dtype its word, of other objects their address."""
    if not isinstance(like, np.dtype):
        return id(like)
    return ctypes.c_int64.from_address(id(like) + calls.OFFSETS[0] + 8).value & int(DTYPE)


class StoredWords:
    """Words in memory: those of `before`, then of arguments, which this object keeps alive."""

    __slots__ = ("_words", "address", "arguments")

    def __init__(self, before: Sequence[int], *arguments: Any) -> None:
        self.arguments = arguments
        words = np.array(before, np.int64).tobytes() + words_of(arguments)
        self._words = np.frombuffer(bytearray(words), np.int64)
        self.address: int = self._words.ctypes.data


class First(StoredWords):
    """A kernel without results, its first argument, and the function `call` that calls it."""

    # Its words: the address of the kernel, the number of the argument's words, and these.

    __slots__ = ("call", "owner")

    def __init__(self, kernel: Specialisation, argument: Any, owner: object) -> None:
        super().__init__((kernel.address, len(words_of(argument)) // 8), argument)
        # Keeps alive the arrays whose addresses are in the argument.
        self.owner = owner
        # call(address of this, address of `Others`, *numbers)
        self.call = _stored_call()


class Others(StoredWords):
    """The other arguments of such a kernel; a call writes its numbers to the array `numbers`.

    Its words: the address of that array, those before arguments (see `words`), room for the `first`
    words of the first argument, and the others.
    """

    __slots__ = ()

    def __init__(self, numbers: NDArray[np.float64], first: int, *arguments: Any) -> None:
        super().__init__((numbers.ctypes.data, *[0] * (RESULTS + first)), *arguments)


@lru_cache(maxsize=1)
def _stored_call() -> Call:
    return calls.new_function(call_stored, "call(first, others, *numbers)\n--\n\n", ())
