"""The benchmark of first calls: it asks, checks, tells where the time went, and compares."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cold, first_calls


def run(monkeypatch: pytest.MonkeyPatch, *options: str) -> None:
    monkeypatch.setattr(sys, "argv", ["cold", *options])
    cold.main()


def row(what: str, first: float, **more: Any) -> dict[str, Any]:
    return {"what": what, "threads": 1, "warm": False, "import": 0.5, "first": first, **more}


@pytest.mark.long
def test_a_first_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cold.json"
    run(monkeypatch, "--only", "build", "--threads", "1", "--json", str(path))
    (found,) = json.loads(path.read_text())["rows"]
    assert (found["what"], found["warm"]) == ("build", False)
    # It has been compiled, and kept.
    assert found["functions"] > 10 and found["kernels"] > 3 and found["kept"] > 0
    assert found["front_end"] > 0 and found["llvm"] > 0 and found["emission"] > 0
    assert found["front_end"] + found["llvm"] + found["emission"] <= found["first"]
    assert "\nbuild " in capsys.readouterr().out


def test_wrong_answers_have_no_times() -> None:
    first_calls.checked("build", True)
    with pytest.raises(SystemExit, match="answer of build is wrong"):
        first_calls.checked("build", False)


def test_the_cube_is_closed_and_looks_outwards() -> None:
    vertices, faces = first_calls.cube(np)
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    assert len(faces) == 6 * first_calls.SIDE
    assert np.einsum("ij,ij", a, np.cross(b, c)) / 6 == pytest.approx(1.0)


def test_changes() -> None:
    old = [row("build", 1.5), row("one ray", 2.0, build=0.5), row("all_hits", 3.0)]
    new = [row("build", 0.5), row("one ray", 3.0, build=0.5), row("contains", 1.0)]
    shorter, longer = cold.changes(old, new)
    assert shorter.startswith("build ") and shorter.endswith("-50%  shorter")
    assert longer.startswith("one ray ") and longer.endswith("+33%  LONGER")
    assert "LONGER" not in next(cold.changes(old[:1], [row("build", 1.55)]))


@pytest.mark.parametrize(
    "options, words",
    [
        (["--only", "build,nothing"], "--only knows .*, got 'nothing'"),
        (["--threads", "0"], "--threads must be 1 to [0-9]+, got 0"),
        (["--compare", __file__], "test_cold.py holds no figures of benchmarks"),
    ],
)
def test_refusals(
    options: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, *options)
    assert re.search(words, capfd.readouterr().err.replace("\n", " "))
