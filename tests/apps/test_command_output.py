"""What the command prints of names that are hostile, or strange to the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trimesh

import bvh
from tests.commands import Run

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_names_do_not_colour_the_screen(run: Run) -> None:
    code, out, err = run("info", "\x1b[31mred.ply")
    assert (code, out) == (2, "") and "\x1b" not in err and "[31mred.ply" in err


def test_encodings_without_the_letters_of_a_name(tmp_path: Path) -> None:
    """What was done is told, as well as can be: it is no failure."""
    name = "\N{SNOWMAN}.ply"
    trimesh.creation.box().export(tmp_path / name)
    root = str(Path(bvh.__file__).parents[1])
    told = subprocess.run(
        [sys.executable, "-m", "bvh", "build", name, "-o", f"{name}.bvh"],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": root},
    )
    assert (told.returncode, told.stderr) == (0, b"") and b"u2603.ply.bvh: 12" in told.stdout
