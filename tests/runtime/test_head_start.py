"""A kernel that another process compiles while this one prepares."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

import pytest

from tests.children import PATIENCE_SECONDS, answer, start

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
def test_no_process_can_be_started(tmp_path: Path) -> None:
    """As at a limit of the user's processes."""
    before = """
def fork():
    raise BlockingIOError("no more processes")

head_start.allowed_cpus = lambda: 2
os.fork = fork
"""
    assert told(tmp_path, "add(1.0, 2.0)", before)[:3] == [0, False, 3.0]


@forking
def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    """Whether the function has been compiled is unknown then."""
    before = """
def cache_roots(setting):
    raise OSError("a name that is too long")

head_start.allowed_cpus, head_start.cache_roots = (lambda: 2), cache_roots
"""
    assert told(tmp_path, "add(1.0, 2.0)", before)[:3] == [0, False, 3.0]


@forking
def test_an_interrupt_is_for_the_first_process(tmp_path: Path) -> None:
    """Also one as soon as the other begins, of which nothing is printed."""
    before = """
import signal
head_start.allowed_cpus = lambda: 2
os.register_at_fork(after_in_child=lambda: signal.raise_signal(signal.SIGINT))
"""
    assert told(tmp_path, SLOWLY, before)[:3] == [1, False, 3.0]


@forking
def test_the_process_ends_if_the_first_is_killed(tmp_path: Path) -> None:
    """Nobody waits for what it has open: neither the pipes of the first, nor other files."""
    os.mkfifo(tmp_path / "held")
    before = f"""
head_start.allowed_cpus = lambda: 2
held = os.open({str(tmp_path / "held")!r}, os.O_WRONLY)
"""
    script = PROGRAM.format(before=before, work="import time; time.sleep(600)")
    script = script.partition("began =")[0] + "os.kill(os.getpid(), 9)"
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    process = start(script, BVH_CACHE_DIR=tmp_path, BVH_KERNELS="off")
    assert process.communicate(timeout=PATIENCE_SECONDS) == ("", "")
    # Readable, and at its end, once nobody can write to it.
    assert select.select([held], [], [], PATIENCE_SECONDS)[0] and os.read(held, 1) == b""
    os.close(held)


@forking
def test_the_process_ends_with_the_first(tmp_path: Path) -> None:
    """A command that fails early does not wait for a kernel."""
    script = PROGRAM.format(
        before="head_start.allowed_cpus = lambda: 2", work="import time; time.sleep(600)"
    ).partition("from bvh.runtime.compiler")[0]
    script += "print(json.dumps([*head_start._compiling.values()][0][0].pid))"
    pid = answer(start(script, BVH_CACHE_DIR=tmp_path, BVH_KERNELS="off"))
    assert not Path(f"/proc/{pid}").exists()
