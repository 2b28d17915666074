"""Ctrl-C in callbacks of foreign code, and in searches that take long."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.batches import distance_batches
from bvh.runtime import threads as workers
from bvh.runtime.interrupts import deferred_interrupts, raise_lost_interrupts
from bvh.runtime.threads import share_long
from bvh.traversal.pairs import meeting_pairs
from bvh.traversal.pairs.closest_pairs import LATER
from tests.children import answer, fork, start

called = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))


def test_it_waits_for_the_end_of_the_block() -> None:
    """Of a callback it would get lost."""
    handler = signal.getsignal(signal.SIGINT)
    done = False
    with pytest.raises(KeyboardInterrupt), deferred_interrupts() as waiting:
        called()
        assert len(waiting) == 1
        done = True
    assert done and signal.getsignal(signal.SIGINT) is handler
    with deferred_interrupts() as waiting:
        pass
    assert not waiting and signal.getsignal(signal.SIGINT) is handler


class Finalized:
    """Is interrupted while it is finalized."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_one_that_is_lost_is_raised_again() -> None:
    """When the block ends or asks; other errors of finalizers are printed, as ever."""
    hook = sys.unraisablehook
    done = False
    with pytest.raises(KeyboardInterrupt), raise_lost_interrupts():
        Finalized()
        done = True
    assert done and sys.unraisablehook is hook
    with raise_lost_interrupts() as check:
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            check()
    with pytest.raises(ZeroDivisionError), raise_lost_interrupts():
        Finalized()
        raise ZeroDivisionError
    assert sys.unraisablehook is hook


def test_lost_while_work_is_shared() -> None:
    """A kernel that is loaded leaves much to finalize; so may work itself."""
    parts: list[int] = []

    def work(begin: int, end: int) -> None:
        parts.append(begin)
        if begin == 2:
            Finalized()

    with pytest.raises(KeyboardInterrupt):
        workers.share(10, 1, work, 1)
    assert parts == [0, 1, 2]
    script = """
import json, signal
from llvmlite.binding import ffi
from bvh.runtime import jit
from bvh.runtime.calls.entries import entry
from bvh.runtime.compiler.dispatchers import lower

@entry
def kernel(x):
    return x + 1

@jit.kernel
def helper(x):
    return x + 2

finalize, times = ffi.ObjectRef.__del__, []
def interrupted(self):
    times.append(0)
    if len(times) == 1:
        signal.raise_signal(signal.SIGINT)
    finalize(self)
ffi.ObjectRef.__del__ = interrupted
try:
    FIRST
except KeyboardInterrupt:
    print(json.dumps({"answer": kernel(1), "more": len(times) > 1}))
"""
    for first in ("kernel(1)", "lower(helper, 1)"):
        told = answer(fork(script.replace("FIRST", first), BVH_CACHE_DIR="off"))
        assert told == {"answer": 2, "more": True}


def test_interrupted_while_the_command_line_is_imported() -> None:
    """The exit code is 130, without a traceback."""
    script = """
import sys

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder)
sys.argv = ["bvh", "--version"]
from bvh.__main__ import main
main()
"""
    process = start(script)
    assert process.communicate() == ("", "") and process.returncode == 130


def test_errors_and_other_threads() -> None:
    """An error of the block goes on; only the main thread can do anything about signals."""
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), deferred_interrupts():
        raise ZeroDivisionError
    seen: list[Any] = []

    def run() -> None:
        with deferred_interrupts() as waiting:
            seen.append((signal.getsignal(signal.SIGINT), waiting))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(handler, [])]


def test_interrupted_while_a_kernel_is_emitted_or_loaded() -> None:
    """LLVM hands machine code over, and asks for it, in callbacks."""
    script = """
import json, signal
from numba.core.codegen import JITCodeLibrary
armed = []
for name in ("_object_compiled_hook", "_object_getbuffer_hook"):
    def hook(*arguments, wrapped=getattr(JITCodeLibrary, name), name=name):
        if name in armed:
            armed.remove(name)
            signal.raise_signal(signal.SIGINT)
        return wrapped(*arguments)
    setattr(JITCodeLibrary, name, hook)
import numba
from bvh.runtime.calls.entries import entry

@entry
def ours(x):
    return x + 1

@numba.njit
def users(x):
    return x + 1

heard = []
for kernel in (ours, users):
    for name, x in (("_object_compiled_hook", 1), ("_object_getbuffer_hook", 1.5)):
        armed.append(name)
        try:
            kernel(x)
        except KeyboardInterrupt:
            heard.append(name)
print(json.dumps({"heard": len(heard), "answers": [ours(1), users(1)]}))
"""
    result = answer(start(script, BVH_CACHE_DIR="off"))
    assert result == {"heard": 4, "answers": [2, 2]}


@pytest.mark.parametrize("threads", [1, 2])
def test_long_work_is_told_to_end(threads: int) -> None:
    """Progress is reported while the first chunk is under way; its exception cancels all."""
    cancel = np.zeros(1, np.int32)
    begun = threading.Event()

    def work(start: int, stop: int) -> None:
        begun.set()
        while not cancel[0]:
            pass

    def progress(done: int, total: int) -> None:
        assert (done, total) == (0, 5)
        if begun.is_set():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        share_long(5, 1, work, threads, cancel, progress)
    assert cancel[0]


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_long_work_is_all_done(threads: int, told: bool) -> None:
    calls: list[tuple[int, int]] = []
    parts: list[tuple[int, int]] = []
    cancel = np.zeros(1, np.int32)

    def work(begin: int, end: int) -> None:
        parts.append((begin, end))

    def progress(done: int, total: int) -> None:
        calls.append((done, total))

    share_long(10, 4, work, threads, cancel, progress if told else None)
    assert sum(end - begin for begin, end in parts) == 10 and not cancel[0]
    assert (calls[-1:] == [(10, 10)]) == told


def test_pairs_are_the_same_in_small_steps(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    corners = rng.random((300, 1, 3)) + 0.4 * rng.random((300, 3, 3))
    tree = bvh.BVH.from_triangles(corners.reshape(-1, 3), np.arange(900).reshape(-1, 3))
    moved = np.eye(4)
    moved[0, 3] = 0.3
    whole = tree.self_overlaps(), tree.overlap_tree(tree, moved)
    assert len(whole[0]) and len(whole[1])
    monkeypatch.setattr(meeting_pairs, "STEPS", 3)
    np.testing.assert_array_equal(tree.self_overlaps(), whole[0])
    again = tree.overlap_tree(tree, moved)
    np.testing.assert_array_equal(again, whole[1])


def test_a_search_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends between two steps."""
    corners = np.tile(np.eye(3), (500, 1, 1)) + np.arange(500).reshape(-1, 1, 1) * 1e-3
    tree = bvh.BVH.from_triangles(corners.reshape(-1, 3), np.arange(1500).reshape(-1, 3))
    slices: list[int] = []
    meet = meeting_pairs.meet

    def interrupted(*arguments: Any) -> bool:
        slices.append(arguments[-1])
        if len(slices) == 3:
            raise KeyboardInterrupt
        return bool(meet(*arguments))

    monkeypatch.setattr(meeting_pairs, "meet", interrupted)
    monkeypatch.setattr(meeting_pairs, "STEPS", 1)
    for threads in (1, 2):
        slices.clear()
        with pytest.raises(KeyboardInterrupt):
            tree.self_overlaps(threads=threads)
        assert len(slices) >= 3


def test_a_distance_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends between two steps, alone and in a batch; the next answers as before."""
    corners = np.tile(np.eye(3), (500, 1, 1)) + np.arange(500).reshape(-1, 1, 1) * 1e-3
    tree = bvh.BVH.from_triangles(corners.reshape(-1, 3), np.arange(1500).reshape(-1, 3))
    moved = np.eye(4)
    moved[:3, 3] = 3.0, -3.0, 0.1
    before, search, calls = tree.distance_to(tree, moved), distance_batches.closest_pairs, 0

    def interrupted(*arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return int(search(*arguments))

    monkeypatch.setattr(distance_batches, "STEPS", 1)
    monkeypatch.setattr(distance_batches, "closest_pairs", interrupted)
    for poses, threads in ((moved, 1), ([moved] * 4, 1), ([moved] * 4, 2)):
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            tree.distance_to(tree, poses, threads=threads)
        assert calls >= 3
    again = tree.distance_to(tree, moved)
    assert again.distance == before.distance > 0.0
    np.testing.assert_array_equal(again.position, before.position)


def test_clearances_end_within_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C waited for the end of each pair that was being measured, for seconds."""
    tree, scene = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]]), bvh.Scene()
    places = np.tile(np.eye(4), (3, 1, 1))
    places[:, 0, 3] = [0.0, 3.0, 6.0]
    scene.add_many(tree, places)
    assert len(scene.clearances()) == 3
    calls: list[int] = []

    def endless(*_: Any) -> int:
        calls.append(len(calls))
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        if len(calls) > 400:
            raise TimeoutError
        time.sleep(0.01)
        return LATER

    monkeypatch.setattr(distance_batches, "closest_pairs", endless)
    with pytest.raises(KeyboardInterrupt):
        scene.clearances(threads=2)
    assert len(calls) < 400
