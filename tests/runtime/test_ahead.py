"""Kernels compiled ahead by a process, beside those that are compiled first."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bvh.geometry.triangles import distance, exact_details
from bvh.runtime.cache.kernel_files import locked_file
from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.compiler import ahead
from bvh.runtime.jit import all_recipes
from bvh.traversal.rays import closest_hit
from bvh.tree import primitives
from tests.children import answer, start

# The first rays of a process that builds a tree, and what became of the process beside it.
PROGRAM = """
import json, os, time
import numpy as np
from bvh.queries.hierarchy import BVH
from bvh.geometry.triangles import exact_details
from bvh.runtime.compiler import ahead
from bvh.runtime.cache.kernel_cache import cache_folder, tally

children = []
_start = ahead.subprocess.Popen
def popen(*given, **named):
    children.append(_start(*given, **named))
    return children[-1]
ahead.subprocess.Popen = popen

tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
rays = np.zeros((2, 3)), np.ones((2, 3))
found = tree.closest_hit(*rays)
child = children[0].pid if children else 0
print(json.dumps({"child": child, "prim_id": found.prim_id.tolist(), "loaded": tally.loaded}))
"""

EMPTY = """
import json
import numpy as np
from bvh.queries.hierarchy import BVH
from bvh.runtime import jit
from bvh.scene.scene import Scene
from bvh.traversal.rays import closest_hit
jit.recipes["first rays{0}"]()
ahead = len(closest_hit.closest_hits.specialisations)
tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
asked = tree
if "{0}":
    asked = Scene()
    asked.add(tree)
found = asked.closest_hit(np.zeros((1, 3)), np.ones((1, 3)), 0.0, np.inf, threads=1)
print(json.dumps([ahead, len(closest_hit.closest_hits.specialisations), found.prim_id.tolist()]))
"""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def ended(process: int) -> bool:
    """Wait until a process is gone."""
    until = time.monotonic() + 60
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_running(process)


@pytest.mark.parametrize("scenes", ["", " in scenes"])
def test_nothing_needs_the_kernels_of_something(scenes: str) -> None:
    result: Any = answer(start(EMPTY.format(scenes)))
    before, after, found = result
    assert before == after == 1 and found == [0]


def test_parts_are_recipes() -> None:
    known = all_recipes()
    for first, then in ahead.PARTS.values():
        assert set(first + then) <= set(known)


def test_the_exact_test_is_lowered_first() -> None:
    """As rays have it: they find it in this process."""
    primitives.lower_first()
    assert len(distance.overloads) == len(exact_details.overloads) == 1


def test_the_kernel_is_known_by_its_name() -> None:
    """Its files in the cache are named by it."""
    assert f".{closest_hit.closest_hits.__name__}." == ahead.RAYS


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="asks for processes by their ids")
def test_rays_are_compiled_beside_a_builder(tmp_path: Path) -> None:
    """The answers are the same; the process ends with this one, and can be forbidden."""
    settings: dict[str, Any] = {"BVH_CACHE_DIR": tmp_path, "BVH_NUM_THREADS": 2}
    found = answer(start(PROGRAM, **settings, BVH_COMPILE_AHEAD="on"))
    assert found["child"] and found["prim_id"] == [0, 0] and found["loaded"]
    assert ended(found["child"])
    found = answer(start(PROGRAM, **settings, BVH_COMPILE_AHEAD="off"))
    assert not found["child"] and found["prim_id"] == [0, 0]


@pytest.mark.skipif(sys.platform == "win32", reason="asks for processes by their ids")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_process_ends_with_the_other(tmp_path: Path, number: int) -> None:
    """However that ends, and though it compiles at the time."""
    script = PROGRAM.replace(
        "tree = BVH", "from bvh.runtime.cache import kernel_files\n"
        "from bvh.tree import primitives\n"
        "def report():\n"
        "    print(children[0].pid, flush=True)\n"
        "    time.sleep(60)\n"
        "primitives.lower_first = report\n"
        "tree = BVH", 1,
    )  # fmt: skip
    process = start(script, BVH_CACHE_DIR=tmp_path, BVH_NUM_THREADS=2, BVH_COMPILE_AHEAD="on",
                    BVH_KERNELS="off")  # fmt: skip
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert is_running(child)
    process.send_signal(number)
    process.wait(60)
    assert ended(child)
    process.communicate()


def test_a_process_is_started_where_it_is_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = KernelFolder(tmp_path / "0123")
    folder.make()
    started: list[Any] = []
    monkeypatch.delenv(ahead.SWITCH, raising=False)
    # Other tests may have left workers of Dask in this process.
    monkeypatch.delitem(sys.modules, "distributed.worker", raising=False)
    monkeypatch.setattr(ahead, "_start", lambda first, then: started.append(first))
    monkeypatch.setattr(ahead, "enrolled", lambda task: lambda: started.append(task))
    monkeypatch.setattr(ahead, "kernel_shelves", lambda: ())
    monkeypatch.setattr(ahead, "cache_folder", lambda: folder)
    monkeypatch.setattr(ahead, "default_threads", lambda: 2)
    monkeypatch.setattr(ahead, "idle_cpus", lambda: 1.9)

    def ask(scenes: bool = False) -> list[Any]:
        started.clear()
        monkeypatch.setattr(ahead, "_begun", False)
        ahead.expect(scenes)
        ahead.start()
        asked = list(started)
        ahead.start()
        assert started == asked
        return asked

    helpers = "helpers of rays"
    assert ask() == [["first rays"], helpers]
    assert ask(scenes=True) == [["first rays in scenes", "first rays"], helpers]
    assert ask() == [["first rays"], helpers]
    # They are compiled already, but not all that follows.
    folder.write(f"bvh{ahead.RAYS}1", b"")
    assert ask() == [["first rays"]]
    folder.write(ahead.DONE, b"")
    assert not ask()
    folder.remove(ahead.DONE)
    # Another process compiles them.
    lock = locked_file(folder, ahead.LOCK)
    assert lock is not None and not ask()
    os.close(lock)
    assert ask()
    worker = SimpleNamespace(Worker=SimpleNamespace(_instances=[1]))
    child = SimpleNamespace(current_process=lambda: SimpleNamespace(name="SpawnProcess-1"))

    def refuse(*_: Any) -> None:
        raise BlockingIOError("no more processes")

    for target, name, value in (
        (ahead, "default_threads", lambda: 1), (ahead, "idle_cpus", lambda: 1.1),
        (ahead, "kernel_shelves", lambda: (folder,)),
        (ahead, "cache_folder", lambda: None), (ahead, "_start", refuse),
        (ahead, "cache_folder", lambda: KernelFolder(tmp_path / "gone")),
        (os, "access", lambda *_: False), (sys, "frozen", True),
        (sys, "executable", "/opt/blender/blender"), (sys, "executable", None),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value, raising=False)
            assert not ask(), name
    for name, module in (("multiprocessing.process", child), ("distributed.worker", worker)):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, module)
            assert not ask(), name
    # By the number of CPUs where nothing is known of their work, or whatever that is.
    monkeypatch.setattr(ahead, "idle_cpus", lambda: None)
    assert ask()
    monkeypatch.setattr(ahead, "idle_cpus", lambda: 0.0)
    assert not ask()
    monkeypatch.setenv(ahead.SWITCH, "on")
    assert ask()
    monkeypatch.setenv(ahead.SWITCH, "OFF")
    assert not ask()
