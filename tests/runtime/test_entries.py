"""Calls of entries: arguments as words, specialisations, results, exceptions."""

import enum
import pickle
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.errors import NumbaValueError, TypingError

from bvh.runtime.calls import entries, python_calls
from bvh.runtime.calls.entries import entry


class Pair(NamedTuple):
    first: object
    second: object


class Other(NamedTuple):
    first: object
    second: object


@entry
def weighed(pair, array, factor, wanted, nothing):
    """Return numbers of all kinds."""
    total = 0.0
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            total += array[i, j] * pair.second[0]
    return total * factor, pair.first, wanted and nothing is None


def arguments():
    array = np.arange(6.0).reshape(2, 3)
    return Pair(7, (2.5, 1)), array, 2.0, True, None


def test_results():
    assert weighed(*arguments()) == (75.0, 7, True)
    known = len(weighed.specialisations)
    pair, array, *_ = arguments()
    cases = [
        # Scalars of numpy, and plain tuples for named ones.
        ((pair, array, np.float64(2), np.True_, None), (75.0, 7, True)),
        ((Pair(np.int64(-7), (2.5, 1)), array, 2.0, False, None), (75.0, -7, False)),
        (((7, (2.5, 1)), array, 2.0, True, None), (75.0, 7, True)),
        # Arrays that may not be written to, are of a subclass, or have a dtype object of their own.
        ((pair, array.view(np.recarray), 2.0, True, None), (75.0, 7, True)),
        ((pair, pickle.loads(pickle.dumps(array)), 2.0, True, None), (75.0, 7, True)),
    ]
    fixed = array.copy()
    fixed.flags.writeable = False
    cases.append(((pair, fixed, 2.0, True, None), (75.0, 7, True)))
    for given, wanted in cases:
        found = weighed(*given)
        assert found == wanted
        assert [*map(type, found)] == [float, int, bool]
    assert len(weighed.specialisations) == known


def test_other_arguments_are_other_specialisations():
    pair, array, *rest = arguments()
    assert weighed(Other(7, (2.5, 1)), array, *rest) == (75.0, 7, True)
    assert weighed(pair, array.astype(np.float32), *rest) == (75.0, 7, True)
    assert weighed(pair, array.astype(np.int64), *rest) == (75.0, 7, True)
    assert weighed(pair, array[::-1], *rest) == (75.0, 7, True)
    assert weighed(pair, array, 2, True, None) == (75.0, 7, True)
    assert weighed(pair, array[:, :0], *rest) == (0.0, 7, True)
    assert weighed(pair, array[:0], *rest) == (0.0, 7, True)
    memory = np.zeros(49, np.uint8)[1:]
    unaligned = memory.view(np.float64).reshape(2, 3)
    unaligned[:] = array
    assert weighed(pair, unaligned, *rest) == (75.0, 7, True)
    for wrong in ("text", array.astype(">f8")):
        with pytest.raises((TypingError, NumbaValueError)):
            weighed(pair, wrong, *rest)
    with pytest.raises(OverflowError):
        weighed(Pair(2**64, (2.5, 1)), array, *rest)
    with pytest.raises(TypeError):
        weighed(pair, array)


def test_calls_without_built_in_functions(monkeypatch):
    monkeypatch.setattr(entries, "called_from_python", lambda kernel, given: None)
    assert entry(weighed.py_func)(*arguments()) == (75.0, 7, True)


@numba.njit
def fails(x):
    if x > 1:
        raise ValueError("too much", 3)
    return x


@entry
def calls_user(function, x):
    """Call a user's function."""
    return function(x) + 1


def test_exceptions():
    assert calls_user(fails, 1) == 2
    with pytest.raises(ValueError, match="too much") as caught:
        calls_user(fails, 2)
    assert caught.value.args == ("too much", 3)
    assert calls_user(fails, 0) == 1


@entry
def nothing(array):
    """Return nothing."""
    array[0] = 1


@entry
def new_array(n):
    """Return an array, which no words hold."""
    return np.arange(n)


@entry
def counted(numbers):
    """Add the numbers of a list."""
    total = 0
    for number in numbers:
        total += number
    return total


def test_other_results_and_arguments_are_numbas():
    array = np.zeros(2, np.uint8)
    assert nothing(array) is None
    assert array[0] == 1
    # Truths are bytes.
    truths = np.zeros(2, bool)
    assert nothing(truths) is None
    assert truths[0]
    assert new_array(3).tolist() == [0, 1, 2]
    assert counted(numba.typed.List([1, 2])) == 3


class Kind(enum.IntEnum):
    SECOND = 2


def test_subclasses_of_numbers_are_numbas():
    for value in (Kind.SECOND, 2, np.int64(2)):
        assert calls_user(fails, 0) == 1
        with pytest.raises(ValueError, match="too much"):
            calls_user(fails, value)
    # Numba takes these for plain numbers, whose words a program for objects would not write.
    assert scalars(Length(2.0), Count(3), 1) == 6.0
    assert scalars(1.0, 2.0, 3) == 6.0
    assert squared(np.complex128(3 + 4j)) == squared(3 + 4j) == 25.0


class Length(float):
    pass


class Count(int):
    pass


@entry
def squared(z):
    """Return the square of the size of a complex number, which has two words."""
    return z.real * z.real + z.imag * z.imag


@entry
def scalars(a, b, c):
    """Return a sum of scalars of other types."""
    return float(a) + b + c


def test_scalars():
    assert scalars(np.uint64(2**63), np.float32(0.5), np.int32(-3)) == 2.0**63 + 0.5 - 3
    assert scalars(np.uint64(1), np.float32(0.5), np.int32(-3)) == -1.5
    assert python_calls.known_types()[0]
