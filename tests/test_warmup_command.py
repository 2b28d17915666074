"""`bvh warmup` in several processes: Ctrl-C ends all of them."""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from bvh.commands import warmup_command


def lingering(name: str) -> None:
    """Stand for a part that takes its time, or none."""
    if name == "slow":
        time.sleep(600)


def test_nobody_waits_for_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel's machine code may take minutes, in which nothing else is heard."""
    monkeypatch.setattr(warmup_command, "all_recipes", lambda: ["slow", "quick"])
    monkeypatch.setattr(warmup_command, "_compile", lingering)

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        warmup_command._compile_together(2, interrupt)
    assert time.monotonic() - began < 500
    assert before.issuperset(multiprocessing.active_children())
