"""Kernels of a picture, compiled by another process while this one reads and builds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from bvh.apps.cli import compiling
from bvh.runtime.cache.kernel_cache import cache_directory
from bvh.traversal.rays import closest_hit
from tests.children import answer, start

PROGRAM = """
import json
import numpy as np
import bvh
from bvh.apps.cli.compiling import cast_at_nothing
from bvh.traversal.rays import closest_hit

def compiled():
    return len(closest_hit.closest_hits.signatures)

cast_at_nothing({scene}, {counters})
ahead = compiled()
tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
asked = tree
if {scene}:
    asked = bvh.Scene()
    asked.add(tree)
rays = np.zeros((1, 3)), np.ones((1, 3))
found = asked.closest_hit(*rays, 0.0, np.inf, counters={counters}, threads=1)
print(json.dumps([ahead, compiled(), found.prim_id.tolist()]))
"""


@pytest.mark.parametrize("scene, counters", [(False, False), (False, True), (True, False)])
def test_nothing_needs_the_kernels_of_something(scene: bool, counters: bool) -> None:
    before, after, found = answer(start(PROGRAM.format(scene=scene, counters=counters)))
    assert before == after == 1 and found == [0]


def test_the_kernel_is_known_by_its_module() -> None:
    """The prefix of its files in the cache follows the module, wherever that moves."""
    assert f"{closest_hit.__name__}." == compiling.RAYS


@pytest.mark.skipif(cache_directory() is None, reason="needs a cache")
def test_a_process_is_started_where_it_is_of_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def start(args: list[str], **_: Any) -> None:
        started.append(args[-1].partition("; ")[2])

    monkeypatch.setattr(compiling.subprocess, "Popen", start)
    monkeypatch.setattr(compiling.atexit, "register", lambda *_: None)
    monkeypatch.setattr(compiling, "kernel_shelves", lambda: ())
    monkeypatch.setattr(compiling, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(compiling, "thread_count", lambda _: 2)

    def ask(name: str) -> int:
        started.clear()
        compiling.compile_ahead(Path(name), counters=False)
        return len(started)

    assert ask("a.ply") == 1 and started == ["cast_at_nothing(False, False)"]
    assert ask("a.GLB") == 1 and started == ["cast_at_nothing(True, False)"]
    (tmp_path / "bvh.traversal.triangles.one").touch()
    assert ask("a.ply") == 1
    (tmp_path / f"{compiling.RAYS}closest_hits-1").touch()
    assert ask("a.ply") == 0
    (tmp_path / f"{compiling.RAYS}closest_hits-1").unlink()
    for name, value in (("thread_count", lambda _: 1), ("kernel_shelves", lambda: (tmp_path,)),
                        ("cache_directory", lambda: None),
                        ("cache_directory", lambda: tmp_path / "gone")):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(compiling, name, value)
            assert ask("a.ply") == 0

    def refuse(*_: Any, **__: Any) -> None:
        raise BlockingIOError("no more processes")

    # It is no error where none can be started.
    monkeypatch.setattr(compiling.subprocess, "Popen", refuse)
    assert ask("a.ply") == 0
    # Nor is there any use in one that cannot keep what it compiles.
    monkeypatch.setattr(compiling.subprocess, "Popen", start)
    monkeypatch.setattr(compiling.os, "access", lambda *_: False)
    assert ask("a.ply") == 0
