"""`bvh warmup` in several processes: who does what, and Ctrl-C ends all of them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from bvh.commands.compiling import Plan, compile_together
from bvh.jit import all_recipes, families


def lingering(name: str) -> None:
    """Stand for a part that takes its time, or none."""
    if name == "slow":
        time.sleep(600)
    if name == "wrong":
        raise OSError("the disk is full")
    if name == "fatal":
        os._exit(3)


def test_nobody_waits_for_what_is_under_way() -> None:
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
    "part, words",
    [("wrong", "OSError: the disk is full"), ("fatal", "ended before it was done")],
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
    plan = Plan([["a1", "a2", "a3", "a4"], ["b1"], ["c1"]])
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
