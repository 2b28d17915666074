"""`bvh warmup`: who compiles what, Ctrl-C ends all of them; other levels."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

import bvh
from bvh.runtime.compiler.cpu_levels import LEVELS, host_levels
from bvh.runtime.compiler.warming import WarmingPlan, compile_together
from bvh.runtime.jit import all_recipes, families
from bvh.traversal.points.closest_point import closest_points
from tests.children import answer, fork
from tests.commands import Run


def lingering(name: str) -> None:
    """Stand for a part that takes its time, or none."""
    if name == "slow":
        time.sleep(600)
    if name == "wrong":
        raise OSError("the disk is full")
    if name == "fatal":
        os._exit(3)


@pytest.mark.parametrize("part", ["point queries", "point queries of scenes"])
def test_what_compiles_warns_of_nothing(part: str) -> None:
    """Meshes of recipes are closed, where queries warn of open ones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bvh.BVHWarning)
        all_recipes()[part]()
    assert not [one for one in caught if issubclass(one.category, bvh.BVHWarning)]
    assert closest_points.specialisations


def test_an_interrupt_waits_for_no_kernel_under_way() -> None:
    """A kernel's machine code may take minutes, in which nothing else is heard."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_together(2, interrupt, [["slow"], ["quick"]], lingering)
    assert time.monotonic() - began < 500
    assert before.issuperset(multiprocessing.active_children())


@pytest.mark.parametrize(
    "part, words", [("wrong", "OSError: the disk is full"), ("fatal", "ended before it was done")]
)
def test_what_goes_wrong_is_told(part: str, words: str) -> None:
    before = set(multiprocessing.active_children())
    with pytest.raises(RuntimeError, match=words):
        compile_together(2, lambda *_: None, [["slow"], [part]], lingering)
    assert before.issuperset(multiprocessing.active_children())


def test_all_parts_are_done_once() -> None:
    told: list[tuple[int, int]] = []
    compile_together(2, lambda *now: told.append(now), [["a", "b"], ["c"]], lingering)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_processes_stay_in_a_family_and_help_in_the_end() -> None:
    plan = WarmingPlan([["a1", "a2", "a3", "a4"], ["b1"], ["c1"]])
    first: list[str] = []
    second: list[str] = []
    done = []
    name, first = plan.next(first)
    done.append(name)
    for _ in range(3):
        name, second = plan.next(second)
        done.append(name)
    for _ in range(2):
        name, first = plan.next(first)
        done.append(name)
    assert done == ["a1", "b1", "c1", "a4", "a2", "a3"]
    assert plan.next(first)[0] is None and plan.next(second)[0] is None


def test_families_hold_all_parts() -> None:
    assert sorted(itertools.chain(*families())) == sorted(all_recipes())


@pytest.mark.long
@pytest.mark.skipif(len(host_levels()) < 2, reason="needs another level")
def test_another_level(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled by a process of its own; then one of that level compiles nothing."""
    level, part = host_levels()[0], "rays and planes"
    monkeypatch.setenv("BVH_CACHE_DIR", str(tmp_path / "kernels"))
    code, said, err = run("warmup", "--cpu", level, "--parts", part, "--processes", 1)
    assert (code, err.strip()) == (0, "")
    assert said.startswith(f"kernels for {level} ready after")
    # This process may have made its own, too.
    versions = {folder.name for folder in (tmp_path / "kernels").iterdir()}
    script = """
import json, bvh
from bvh.runtime.compiler.kernel_cache import fingerprint, tally
hit = bvh.ray_plane([0, 0, 0], [0, 0, 1], [0, 0, 1], -1.0)
print(json.dumps([fingerprint(), tally.compiled, tally.loaded > 0]))
"""
    known, *counts = answer(fork(script, BVH_CPU=level, BVH_KERNELS="off"))
    assert known in versions and counts == [0, True]


def test_wrong_wishes(run: Run) -> None:
    """Levels that cannot run here, parts that are none."""
    there = set(LEVELS) - set(host_levels())
    for level in (*there, "pentium"):
        code, _, err = run("warmup", "--cpu", level)
        assert code != 0 and "--cpu" in err and level in err
    code, _, err = run("warmup", "--parts", "everything")
    assert code != 0 and "--parts must be some of" in err and "'everything'" in err
