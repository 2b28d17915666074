"""How kernels are compiled: entries as a whole, helpers into them, and the same without that."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from bvh.runtime import jit
from bvh.runtime.compiler import dispatchers
from bvh.runtime.compiler.dispatchers import own_pipelines
from bvh.runtime.jit import inlined, kernel, stay_outlined
from tests.children import answer, fork

lean = pytest.mark.skipif(
    "not own_pipelines()", reason="this version of Numba compiles kernels itself"
)

ASK = """
import json, sys
{before}
import numpy as np
from bvh import ray_triangle
from bvh.runtime.compiler.dispatchers import own_pipelines
rng = np.random.default_rng(3)
corners = rng.normal(size=(3, 200, 3))
hit, t, u, v = ray_triangle(rng.normal(size=(200, 3)), rng.normal(size=(200, 3)), *corners)
lean = bool(own_pipelines())
print(json.dumps({{"lean": lean, "t": t.tobytes().hex(), "u": u[hit].tobytes().hex()}}))
"""

# Their module is missing, of which a warning tells.
HIDDEN = """
import warnings
warnings.simplefilter("ignore")
sys.modules["bvh.runtime.compiler.compilation"] = None
"""


def entry(function: Any) -> Any:
    """Compile an entry that is not kept on disk, where nothing tells that this file changes."""
    return numba.njit(**jit.OPTIONS | dispatchers.ENTRY)(function)


@kernel
def _doubled(x):
    """Return 2 x."""
    stay_outlined()
    return 2.0 * x


@inlined
def _doubled_and_more(pair, axis):
    """Return twice a component of a pair, and one."""
    return _doubled(pair[axis]) + 1.0


@entry
def _sums(values, out):
    """Write what the helpers make of each row of values."""
    for i in range(len(values)):
        pair = (values[i, 0], values[i, 1])
        out[i] = _doubled_and_more(pair, 0) + _doubled_and_more(pair, 1)


@entry
def _fresh(n):
    """Return an array that the kernel makes itself, and whose references are counted."""
    out = np.empty(n)
    other = out
    for i in range(n):
        if i == n // 2:
            other = np.empty(1)
        other[0] = i
        out[i] = _doubled(float(i))
    return out, other


def test_an_entry_holds_its_helpers() -> None:
    """Only an entry has machine code; its helpers are parts of it that nobody else can call."""
    values, out = np.arange(6.0).reshape(3, 2), np.empty(3)
    _sums(values, out)
    assert out.tolist() == (2.0 * values.sum(axis=1) + 2.0).tolist()
    [compiled] = _sums.overloads.values()
    helper = next(iter(_doubled.overloads.values()))
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cpython_wrapper_name)
    if own_pipelines():
        from bvh.runtime.compiler.compilation import HelperLibrary

        defined = [
            line for line in compiled.library.get_llvm_str().splitlines() if "define" in line
        ]
        inside = [line for line in defined if helper.fndesc.llvm_func_name in line.split("(")[0]]
        assert inside and all("internal" in line for line in inside), defined
        # Lowered here, or by an earlier process that stored it.
        assert isinstance(helper.library, HelperLibrary)


def test_arrays_made_in_kernels_are_counted() -> None:
    """Memory that kernels allocate is kept while it is used and given back afterwards."""
    from numba.core.runtime import _nrt_python, rtsys

    _nrt_python.memsys_enable_stats()
    for _ in range(3):
        out, other = _fresh(100)
        assert out.tolist() == [49.0, *(2.0 * i for i in range(1, 100))] and other[0] == 99.0
    del out, other
    before = rtsys.get_allocation_stats()
    for _ in range(50):
        _fresh(100)
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free


def test_users_functions_call_helpers() -> None:
    """A function that Numba compiles takes a helper with all that it calls."""

    @numba.njit
    def user(x):
        return _doubled_and_more((x, 3.0), 1) + _doubled(x)

    assert user(5.0) == 17.0


@lean
def test_long_names_are_short() -> None:
    """Names of helpers do not hold the types of whole trees."""
    from bvh.runtime.compiler.compilation import LONGEST_NAME

    _sums(np.zeros((1, 2)), np.zeros(1))
    for compiled in _doubled_and_more.overloads.values():
        assert len(compiled.fndesc.llvm_func_name) <= LONGEST_NAME


@pytest.mark.long
@pytest.mark.parametrize("before", ["", HIDDEN])
def test_numba_alone_compiles_the_same(before: str) -> None:
    """Where Numba's inside is another one, or on demand, kernels answer bit for bit the same."""
    plain = {} if before else {"BVH_PLAIN_COMPILER": "1"}
    asked = [
        fork(ASK.format(before=""), BVH_CACHE_DIR="off"),
        fork(ASK.format(before=before), BVH_CACHE_DIR="off", **plain),
    ]
    ours, alone = map(answer, asked)
    assert not alone.pop("lean")
    assert ours.pop("lean") == bool(own_pipelines())
    assert ours == alone


@pytest.mark.long
def test_debug_information_changes_no_answer() -> None:
    """With it, Numba keeps all variables in memory, also those that are assigned once."""
    asked = [fork(ASK.format(before=""), BVH_CACHE_DIR="off", NUMBA_DEBUGINFO=on) for on in (0, 1)]
    plain, debugged = map(answer, asked)
    assert plain == debugged


FAILS = """
import json, sys, warnings
import numpy as np
from bvh.runtime.compiler.kernel_cache import tally
from bvh.runtime.compiler import compilation, dispatchers
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel

def fail(*_):
    raise {error}

{before}

@inlined
def item(pair, axis):
    return pair[axis] / 3.0

@kernel
def both(x):
    return item((x, x), 0) + item((x, x), 1)

@entry
def sums(values):
    total = 0.0
    for i in range(len(values)):
        total += both(values[i])
    return total

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = [sums(np.arange(n) / 7.0).hex() for n in (3, 4)] + [sums(np.arange(5)).hex()]
tried, own = dispatchers._decided, dispatchers.own_pipelines() is not None
counts = {{"own": own, "tried": tried, "compiled": tally.compiled, "found": found}}
print(json.dumps(counts | {{"told": [str(w.message) for w in told],
                           "files": [w.filename for w in told]}}))
"""


@pytest.mark.long
def test_pipelines_that_fail() -> None:
    """Numba's compile kernels to the same, and one warning says so, at the line of the caller."""
    ways = {
        "works": ("", "", {}), "plain": ("", "", {"BVH_PLAIN_COMPILER": "1"}),
        "no module": ("", "sys.modules['bvh.runtime.compiler.stored_helpers'] = None", {}),
        "gone": ("AttributeError('gone')", "compilation.KernelLower.lower_block = fail", {}),
        "any": ("AssertionError", "compilation.EntryLibrary.finalize = fail", {}),
        "first step": ("KeyError(7)", "compilation.FrontEnd.run_pass = fail", {}),
    }  # fmt: skip
    asked = {
        name: fork(FAILS.format(error=error or 0, before=before), BVH_CACHE_DIR="off", **more)
        for name, (error, before, more) in ways.items()
    }
    told = {name: answer(child) for name, child in asked.items()}
    assert len({tuple(one["found"]) for one in told.values()}) == 1
    assert [name for name, one in told.items() if one["own"]] == ["works"]
    for name, one in told.items():
        if name in ("works", "plain"):
            assert not one["told"]
        else:
            [message] = one["told"]
            assert f"Numba {numba.__version__}" in message and "several times" in message
            assert one["files"] == ["<string>"]
    assert "AttributeError: gone" in told["gone"]["told"][0]


@pytest.mark.long
def test_kernels_of_both_pipelines_are_apart(tmp_path: Any) -> None:
    """Stored kernels are loaded without a trial; those of Numba's are for this CPU alone."""
    ways = {"": [], "compilation.EntryLibrary.finalize = fail": []}
    for before, told in ways.items():
        folder = tmp_path / str(len(before))
        for way in (before, before, ""):
            script = FAILS.format(error="ValueError", before=way)
            told.append(answer(fork(script, BVH_CACHE_DIR=folder)))
            told[-1]["folders"] = {path.name for path in folder.iterdir() if path.is_dir()}
    ours, numbas = ways.values()
    assert [one["compiled"] for one in ours] == [3, 0, 0]
    assert [one["tried"] for one in ours] == [True, False, False]
    if own_pipelines():
        assert [one["compiled"] for one in numbas] == [3, 0, 3]
        assert all(one["tried"] for one in numbas)
        assert len(numbas[-1]["folders"]) == 2 and ours[-1]["folders"] < numbas[-1]["folders"]
