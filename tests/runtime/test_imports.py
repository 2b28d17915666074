"""When Numba is imported: not before something must be compiled, and then once, whoever asks."""

from __future__ import annotations

import os
import pickle
import pydoc

import pytest

from bvh import kernels
from bvh.runtime.jit import inlined
from tests.children import answer, start

# Of these, modules that queries use import none.
HEAVY = "numba", "llvmlite", "trimesh", "scipy", "torch", "jax", "warp", "dask", "PIL", "pyvista"

LOADED = """
import json, sys
from importlib import import_module
import bvh
{body}
print(json.dumps([name for name in {heavy} if name in sys.modules]))
"""


def loaded_by(body: str) -> list[str]:
    """Return which of the heavy modules a program has imported."""
    return list(answer(start(LOADED.format(body=body, heavy=HEAVY), BVH_CPU=None)))


def test_no_import_waits_for_numba() -> None:
    """Not that of what holds kernels, nor of what queries use."""
    assert loaded_by("") == []
    body = """
from bvh.runtime.registry import enrolled
for module in sum(map(list, enrolled("modules of kernels")), []):
    import_module(module)
for name in bvh.__all__:
    # The apps are made of other libraries.
    if not bvh._MODULES[name].startswith("bvh.apps."):
        getattr(bvh, name)
"""
    assert loaded_by(body) == []


@pytest.mark.long
def test_trees_from_arrays_do_without_trimesh() -> None:
    body = """
import numpy as np
tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
tree.closest_hit([1.0, 1.0, 1.0], [-1.0, -1.0, -1.0])
"""
    # Numba imports SciPy.
    assert set(loaded_by(body)) <= {"numba", "llvmlite", "scipy"}


def test_settings_of_numba_are_asked_for() -> None:
    """Where one may name a CPU, Numba is: it reads them, and tells what they mean."""
    script = LOADED.format(body="bvh.BVH", heavy=HEAVY[:2])
    assert answer(start(script, BVH_CPU=None, NUMBA_CPU_NAME="generic")) == ["numba", "llvmlite"]


# A user's function that calls ours. What is imported of bvh does not import Numba.
OURS = """
import json, sys
{first}
before = "numba" in sys.modules
from bvh import kernels
import bvh.geometry.arithmetic.floats as floats
from bvh.geometry.arithmetic.floats import two_product
same = before == ("numba" in sys.modules)
import numba

@numba.njit
def ours(x):
    high, low = two_product(x, 3.0)
    return high + floats.power_of_two(1)
"""


@pytest.mark.parametrize("first", ["import bvh", "import numba, bvh"])
def test_users_functions_call_ours(first: str) -> None:
    """In any order of imports."""
    script = OURS.format(first=first) + "print(json.dumps([same, ours(2.0)]))"
    assert answer(start(script)) == [True, 8.0]


@pytest.mark.long
@pytest.mark.parametrize("first", ["import bvh", "import numba, bvh"])
def test_users_functions_call_kernels(first: str) -> None:
    """The same, and queries."""
    script = (
        OURS.format(first=first)
        + """
@numba.njit
def below(arrays, x, y):
    return kernels.any_hit(arrays, (x, y, 2.0), (0.0, 0.0, -1.0))

sum_of = ours(2.0)
tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
print(json.dumps([same, sum_of, below(tree.arrays, 1.0, 2.0)]))
"""
    )
    assert answer(start(script)) == [True, 8.0, True]


def test_threads_ask_for_numba_at_once() -> None:
    """By kernels, and by modules of which each needs other parts of it."""
    script = """
import json, sys, threading
from importlib import import_module
import bvh
from bvh.geometry.arithmetic.floats import two_product, vector
from bvh.runtime.compiler.deferred import activate
names = (
    "runtime.simd.vectors", "runtime.simd.lanes", "kernels",
    "runtime.compiler.dispatchers", "runtime.compiler.compilation", "queries.hierarchy",
)
asks = [lambda name=name: import_module(f"bvh.{name}") for name in names]
asks += [lambda: two_product.overloads, lambda: vector.real, activate, lambda: bvh.Scene]
gate, failed, made = threading.Barrier(2 * len(asks)), [], set()

def ask(what):
    gate.wait()
    try:
        what()
        made.add(id(two_product.real))
    except BaseException as error:
        failed.append(repr(error))

assert "numba" not in sys.modules
threads = [threading.Thread(target=ask, args=(what,)) for what in asks + asks]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
from bvh.geometry.triangles import ray_triangle
hit, t, *_ = ray_triangle([1, 1, 1], [-1, -1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1])
print(json.dumps([failed, len(made), bool(hit)]))
"""
    assert answer(start(script)) == [[], 1, True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_wait_for_the_import() -> None:
    """A child that starts while another thread imports Numba finds all of it."""
    script = """
import json, os, signal, sys, threading, time
import bvh
from bvh.geometry.triangles import ray_triangle
from bvh.runtime.compiler import deferred
begun = threading.Event()
deferred.at_activation(lambda: (begun.set(), time.sleep(0.5)))
thread = threading.Thread(target=deferred.activate)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(100)
    hit, *_ = ray_triangle([1, 1, 1], [-1, -1, -1], [1, 0, 0], [0, 1, 0], [0, 0, 1])
    os._exit(7 if hit and deferred._done else 1)
thread.join()
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
"""
    assert answer(start(script)) == 7


def test_an_error_is_raised_again() -> None:
    """A registration that failed is tried again, and Ctrl-C comes after it."""
    script = """
import json, os, signal, sys
import bvh
from bvh.geometry.arithmetic.floats import two_product
from bvh.runtime.compiler.deferred import at_activation
told = []

def fail():
    told.append("tried")
    if len(told) == 1:
        raise OSError("no disk")
    os.kill(os.getpid(), signal.SIGINT)

at_activation(fail)
said = []
for _ in range(3):
    try:
        said.append(len(two_product.overloads))
    except (OSError, KeyboardInterrupt) as error:
        said.append(type(error).__name__)
print(json.dumps([told, said]))
"""
    assert answer(start(script)) == [["tried", "tried"], ["OSError", "KeyboardInterrupt", 0]]


def test_what_stands_for_a_kernel() -> None:
    """It has the name and the text of its function, and what Numba adds; it can be pickled."""

    @inlined
    def twice(x: float) -> float:
        """Return twice a number."""
        return x + x

    assert (twice.__name__, twice.__doc__) == ("twice", "Return twice a number.")
    assert twice.py_func(2.0) == 4.0 and not twice.overloads and twice.real is twice.real
    assert twice.targetoptions["forceinline"] is True
    assert not hasattr(twice, "__array__") and not hasattr(twice, "nothing")
    assert "Find the nearest hit of a ray" in pydoc.render_doc(kernels.closest_hit)
    assert pickle.loads(pickle.dumps(kernels.closest_hit)) is kernels.closest_hit
    with pytest.raises(TypeError, match=r"kernels\.closest_hit must be called from a function"):
        kernels.closest_hit(1, 2, 3)
