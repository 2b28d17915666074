"""Calls of one kernel again and again for single rays and points, with arguments prepared as words.

To take apart the twenty arrays of such a call (see `invocation`) would take longer than the ray. So
the words of all arguments are written once. A `PreparedKernel`, one for each tree, has the address
of the kernel and its first argument, such as the row of the tree. `PreparedArguments`, made for
each thread, have the others, its memory. A call writes its numbers, such as the ray, to an array of
that memory, copies the words of the first argument before the others, and calls the kernel. Results
are in the thread's memory.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.runtime.calls import python_calls as calls
from bvh.runtime.calls.invocation import Call
from bvh.runtime.calls.linked import Specialisation
from bvh.runtime.calls.python_calls import F8, I8, call_c
from bvh.runtime.calls.words import RESULTS, words_of
from bvh.runtime.jit import method
from bvh.runtime.simd import peek, pointer_to, poke


@method
def call_prepared(owner, given, count, names):
    """Call a kernel: (address of `PreparedKernel`, of `PreparedArguments`, *numbers) -> None.

    The parameters are those of a method: see `invocation.invoke`. Arguments have no names.
    """
    # Words of `kernel`: its address, the number of words of its first argument, and these. Of
    # `others`: the address of `numbers`; RESULTS words; room for the first argument; the others.
    memory, arguments = calls.memory_of(owner), pointer_to(given, I8)
    kernel = pointer_to(calls.as_int(memory, peek(arguments, 0)), I8)
    address = calls.as_int(memory, peek(arguments, 1))
    others = pointer_to(address, I8)
    numbers = pointer_to(peek(others, 0), F8)
    for i in range(count - 2):
        poke(numbers, i, calls.as_float(memory, peek(arguments, 2 + i)))
    if calls.error_occurred(memory) != 0:
        return np.int64(0)
    for i in range(peek(kernel, 1)):
        poke(others, 1 + RESULTS + i, peek(kernel, 2 + i))
    thread_state = calls.release_gil(memory)
    call_c(peek(kernel, 0), (address + 8,), I8)
    calls.restore_gil(memory, thread_state)
    return calls.new_reference(memory, calls.NONE)


class PreparedWords:
    """Words at `address`: those of `before`, then of arguments, which this object keeps alive."""

    __slots__ = ("_words", "address", "arguments")

    def __init__(self, before: Sequence[int], *arguments: Any) -> None:
        """Write the integers `before`, then the words of the arguments."""
        self.arguments = arguments
        words = np.array(before, np.int64).tobytes() + words_of(arguments)
        self._words = np.frombuffer(bytearray(words), np.int64)
        self.address: int = self._words.ctypes.data


class PreparedKernel(PreparedWords):
    """A kernel without results, its first argument, and the function `call` that calls it.

    Its words: the address of the kernel, the number of the argument's words, and these.
    """

    __slots__ = ("call", "owner")

    def __init__(self, kernel: Specialisation, argument: Any, owner: object) -> None:
        """Prepare a kernel and its first argument, whose arrays `owner` keeps alive."""
        super().__init__((kernel.address, len(words_of(argument)) // 8), argument)
        self.owner = owner
        # call(address of this, address of `PreparedArguments`, *numbers)
        self.call = _call_function()


class PreparedArguments(PreparedWords):
    """The other arguments of such a kernel; a call writes its numbers to the array `numbers`.

    Its words: the address of that array; then what the kernel is called with (see `words`): the
    RESULTS words before arguments, room for the first argument, which has `first` words, and those
    of the other arguments.
    """

    __slots__ = ()

    def __init__(self, numbers: NDArray[np.float64], first: int, *arguments: Any) -> None:
        super().__init__((numbers.ctypes.data, *[0] * (RESULTS + first)), *arguments)


@lru_cache(maxsize=1)
def _call_function() -> Call:
    """Return `call_prepared` as a function of Python; it is the same for all kernels."""
    return calls.new_function(call_prepared, "call(kernel, arguments, *numbers)\n--\n\n", ())
