"""Forks while another thread compiles: the child can compile, or is told that it cannot."""

from __future__ import annotations

import os

import pytest

from tests.children import answer, fork, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Kernels of a script cannot be stored.
OFF = {"BVH_CACHE_DIR": "off"}

# A kernel whose first compilation lingers for `seconds`, and one whose does not.
KERNELS = """
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import llvm_operation, types

compiling = threading.Event()

@llvm_operation
def lingering(typingctx):
    if not compiling.is_set():
        compiling.set()
        time.sleep(seconds)
    return types.int64(), lambda context, builder, sig, args: context.get_constant(types.int64, 7)

@entry
def slow(x):
    return lingering() + x

@entry
def quick(x):
    return x + 1
"""

# Another thread is at a kernel whose compilation lingers; meanwhile this one forks.
FORK = (
    """
import json, os, signal, threading, time
from bvh.runtime import forks

seconds = {seconds}
"""
    + KERNELS
    + """
forks.PATIENCE_SECONDS = {patience}
thread = threading.Thread(target=slow, args=(1,))
thread.start()
compiling.wait()
if {interrupted}:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
reader, writer = os.pipe()
heard, child = False, None
try:
    child = os.fork()
    if child == 0:
        try:
            said = quick(1) + slow(1)
        except BaseException as error:
            said = error
        os.write(writer, str(said).encode())
        os._exit(0)
    time.sleep(0.5)
except KeyboardInterrupt:
    heard = True
os.close(writer)
said = os.read(reader, 1000).decode()
os.wait()
thread.join()
print(json.dumps({{"child": said, "heard": heard, "parent": quick(1) + slow(1)}}))
"""
)


def test_a_fork_waits_for_the_compiler() -> None:
    result = answer(fork(FORK.format(seconds=1, patience=100, interrupted=False), **OFF))
    assert result == {"child": "10", "heard": False, "parent": 10}


def test_a_child_is_told() -> None:
    """Where the compiler is not at rest in time, the child cannot have it; the parent can."""
    result = answer(fork(FORK.format(seconds=2, patience=0.2, interrupted=False), **OFF))
    assert "forked while another thread compiled" in result["child"]
    assert (result["heard"], result["parent"]) == (False, 10)


def test_interruption_ends_the_waiting() -> None:
    result = answer(fork(FORK.format(seconds=4, patience=100, interrupted=True), **OFF))
    assert "forked while another thread compiled" in result["child"]
    assert (result["heard"], result["parent"]) == (True, 10)


# Another thread imports Numba, which takes a while, and then compiles; meanwhile this one forks.
FORK_EARLY = (
    """
import json, os, select, signal, threading, time
from bvh.runtime.compiler.deferred import at_activation

begun, seconds = threading.Event(), 1

@at_activation
def linger():
    begun.set()
    time.sleep(0.5)
"""
    + KERNELS
    + """
thread = threading.Thread(target=slow, args=(1,))
thread.start()
begun.wait()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, str(quick(1)).encode())
    os._exit(0)
os.close(writer)
said = os.read(reader, 1000).decode() if select.select([reader], [], [], 60)[0] else "nothing"
os.kill(child, signal.SIGKILL)
os.wait()
thread.join()
print(json.dumps([said, quick(1) + slow(1)]))
"""
)


def test_a_fork_waits_for_the_import_of_the_compiler() -> None:
    """The child can compile: it finds no lock of Numba's, nor of an import, that stays taken."""
    assert answer(start(FORK_EARLY, **OFF)) == ["2", 10]
