"""Options of Numba: in one file, and for all kernels."""

from __future__ import annotations

import re
import sys

from numba.core.dispatcher import Dispatcher

from bvh.runtime.compiler.deferred import real_of
from tests.children import PACKAGE, answer, fork, start


def test_numba_options_are_in_one_file() -> None:
    """Only jit.py speaks of them; dispatchers.py hands them on."""
    words = re.compile(r"njit|fastmath|(?<!jax\.)\bjit\(|@jit|parallel=|error_model|cache=True")
    for path in PACKAGE.rglob("*.py"):
        if "programs" in path.parts:
            continue
        code = re.sub(r'"""(?s:.*?)"""', "", path.read_text(encoding="utf-8"))
        found = words.findall(re.sub(r"compiled with numba\.njit", "", code))
        if path == PACKAGE / "runtime" / "compiler" / "dispatchers.py":
            assert found == ["njit"]
        else:
            assert bool(found) == (path == PACKAGE / "runtime" / "jit.py"), (path, found)
    dispatchers = [
        real
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "bvh" and not name.startswith("bvh.docs.programs")
        for value in vars(module).values()
        if isinstance(real := real_of(value), Dispatcher)
    ]
    assert len(dispatchers) > 50
    for dispatcher in dispatchers:
        options = dispatcher.targetoptions
        assert options["fastmath"] is False and options["nogil"] is True
        assert options["error_model"] == "numpy"


def test_exact_arithmetic_survives_a_fast_caller() -> None:
    """A user's fastmath kernel is the first to compile our helpers: they stay as written."""
    script = """
import json
from fractions import Fraction
import numba
import numpy as np
from bvh.runtime.calls.entries import entry
from bvh.geometry.arithmetic.floats import dd_add, two_product, two_sum

@numba.njit(fastmath=True)
def fast(a, b, out):
    for i in range(len(a)):
        out[i, 0], out[i, 1] = two_sum(a[i], b[i])
        out[i, 2], out[i, 3] = two_product(a[i], b[i])

@entry
def ours(a, b, out):
    for i in range(len(a)):
        out[i, 0], out[i, 1] = two_sum(a[i], b[i])
        out[i, 2], out[i, 3] = two_product(a[i], b[i])

rng = np.random.default_rng(0)
a, b = rng.normal(size=(2, 1000)) * 2.0 ** rng.integers(-60, 60, (2, 1000))
wrong = []
for kernel in (fast, ours):
    out = np.empty((1000, 4))
    kernel(a, b, out)
    exact = [[Fraction(x) for x in row] for row in np.column_stack([a, b, out]).tolist()]
    wrong.append(sum(x + y != s + e for x, y, s, e, _, _ in exact))
    wrong.append(sum(x * y != p + e for x, y, _, _, p, e in exact))
print(json.dumps({"wrong": wrong}))
"""
    assert answer(fork(script, BVH_CACHE_DIR="off"))["wrong"] == [0, 0, 0, 0]


def test_numba_that_compiles_nothing() -> None:
    """With NUMBA_DISABLE_JIT there are no kernels: an error says so."""
    script = """
import json
from bvh.runtime.calls.entries import entry

@entry
def add(x, y):
    return x + y

try:
    add(1, 2)
except ValueError as error:
    print(json.dumps(str(error)))
"""
    assert "NUMBA_DISABLE_JIT" in answer(start(script, BVH_CACHE_DIR="off", NUMBA_DISABLE_JIT=1))
