"""A kernel that another process compiles while this one prepares."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.children import answer, start

PROGRAM = """
import json, os, sys
from bvh.runtime.cache import head_start
from bvh.runtime.cache.head_start import compile_meanwhile, wait_for
from bvh.runtime.calls.entries import entry

{before}
# The other process can read from the first when this one waits.
told, waits = os.pipe()

@entry
def add(x, y):
    return x + y

def work():
    {work}

name = add.__module__ + ".add"
called = []
shared = []
compile_meanwhile(name, work, lambda: shared.append(name), lambda: called.append(name))
began = len(head_start._compiling)
# Once only, and only if the other process was started.
head_start.take_part(), head_start.take_part()
assert len(shared) == began
imported = "numba" in sys.modules
from bvh.runtime.compiler import kernel_cache
from bvh.runtime.compiler.kernel_cache import tally

def wait(name):
    os.write(waits, b"1")
    return wait_for(name)

kernel_cache.wait_for = wait
total = add(1.0, 2.0)
print(json.dumps([began, imported, total, tally.compiled, len(head_start._compiling), len(called)]))
"""

# Compiles not before the first process needs the kernel.
SLOWLY = "os.read(told, 1); add(1.0, 2.0)"

forking = pytest.mark.skipif(sys.platform != "linux", reason="only forks are safe")


def told(cache: object, work: str, before: str = "", **settings: object) -> list[object]:
    """Return what a program prints that has `add` compiled by a process whose body is `work`."""
    script = PROGRAM.format(before=before, work=work)
    return list(answer(start(script, BVH_CACHE_DIR=cache, BVH_KERNELS="off", **settings)))


@forking
def test_the_kernel_is_loaded_not_compiled(tmp_path: Path) -> None:
    """The first process imports Numba itself, and waits for the kernel when it needs it."""
    two = "head_start.allowed_cpus = lambda: 2"
    # `invoke`, which every process needs, may be compiled by either.
    began, imported, total, compiled, left, called = told(tmp_path, SLOWLY, two)
    assert (began, imported, total, left, called) == (1, False, 3.0, 0, 1) and compiled < 2
    names = [path.name for path in tmp_path.glob("*/*.add.*")]
    assert len(names) == 1
    # Now it is there: no process is started.
    assert told(tmp_path, "add(1.0, 2.0)", two) == [0, False, 3.0, 0, 0, 0]


@forking
@pytest.mark.parametrize("work", ["raise OSError", "os._exit(3)", "print(1); add(1, 2)"])
def test_what_fails_is_compiled_here(tmp_path: Path, work: str) -> None:
    """A process that ends, or compiles the function for other types."""
    before = "head_start.allowed_cpus = lambda: 2"
    began, imported, total, _, left, _ = told(tmp_path, work, before)
    assert (began, imported, total, left) == (1, False, 3.0, 0)


@pytest.mark.parametrize(
    "cache, cpus", [("off", 2), (None, 1)], ids=["nothing is stored", "one CPU"]
)
def test_no_process_where_it_is_of_no_use(tmp_path: Path, cache: str | None, cpus: int) -> None:
    before = f"head_start.allowed_cpus = lambda: {cpus}"
    assert told(cache or tmp_path, "add(1.0, 2.0)", before)[:3] == [0, False, 3.0]


@forking
def test_the_process_ends_with_the_first(tmp_path: Path) -> None:
    """A command that fails early does not wait for a kernel."""
    script = PROGRAM.format(
        before="head_start.allowed_cpus = lambda: 2", work="import time; time.sleep(600)"
    ).partition("from bvh.runtime.compiler")[0]
    script += "print(json.dumps([*head_start._compiling.values()][0][0].pid))"
    pid = answer(start(script, BVH_CACHE_DIR=tmp_path, BVH_KERNELS="off"))
    assert not Path(f"/proc/{pid}").exists()
