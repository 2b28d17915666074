"""The benchmark of first calls: answers, checks, parts of the time, and comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import cold
from benchmarks.figures import compare
from benchmarks.session import run as run_session


def row(what: str, seconds: float, **more: Any) -> dict[str, Any]:
    times = {"seconds": {"bvh": [seconds]}, "noise": 0.1, "foreign": 0.9, "count": 1}
    return {"mesh": "empty cache", "what": what, "threads": 1, **times, **more}


@pytest.mark.long
def test_a_first_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cold.json"
    options = ["--task", "cold", "--verbs", "build", "--threads", "1", "--json", str(path)]
    assert run_session(options, "bench") == 0
    (found,) = json.loads(path.read_text())["rows"]
    assert (found["what"], found["mesh"]) == ("build", "empty cache")
    parts = found["parts"]
    # It has been compiled, and kept.
    assert parts["kernels"] > 3 and parts["MB kept"] > 0
    assert 0 < parts["import"] + parts["call"] == pytest.approx(found["seconds"]["bvh"][0], rel=0.1)
    assert "\nbuild" in capsys.readouterr().out


def test_wrong_answers_have_no_times() -> None:
    cold.checked("build", True)
    with pytest.raises(SystemExit, match="answer of build is wrong"):
        cold.checked("build", False)


def test_the_cube_is_closed_and_looks_outwards() -> None:
    vertices, faces = cold.cube()
    a, b, c = (vertices[faces[:, i]] for i in range(3))
    assert len(faces) == 6 * cold.SIDE
    assert np.einsum("ij,ij", a, np.cross(b, c)) / 6 == pytest.approx(1.0)
    upper = vertices[faces[5 * cold.SIDE :]]
    assert (upper[..., 2] == 1.0).all()


def test_changes() -> None:
    """CPU seconds are compared however busy the machine was, with a wide margin."""
    old = [row("build", 2.0), row("one ray", 3.0), row("all_hits", 3.0)]
    new = [row("build", 1.0), row("one ray", 4.0), row("contains", 1.0)]
    text = list(compare.lines(old, new))
    assert [line.split()[-1] for line in text if line.startswith("empty")] == ["faster", "SLOWER"]
    assert not any(change.flagged for change in compare.changes(old[:1], [row("build", 2.1)]))


@pytest.mark.parametrize(
    "options, words",
    [
        (["--verbs", "build,nothing"], "--verbs knows .*; not nothing"),
        (["--threads", "0"], "--threads: must be numbers such as 1,2, got '0'"),
        (["--compare", __file__], "test_cold.py holds no figures of benchmarks"),
    ],
)
def test_refusals(options: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_session(["--task", "cold", *options], "bench")
    assert re.search(words, capfd.readouterr().err.replace("\n", " "))
