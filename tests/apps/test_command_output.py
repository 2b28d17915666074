"""What the command prints of names that are hostile, or strange to the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh

import bvh
from tests.cases.partitions import parts_of
from tests.commands import Run

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_names_do_not_colour_the_screen(run: Run) -> None:
    code, out, err = run("info", "\x1b[31mred.ply")
    assert (code, out) == (2, "") and "\x1b" not in err and "[31mred.ply" in err


@pytest.mark.long
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


def test_one_of_everything(run: Run, tmp_path: Path) -> None:
    """Nouns are those of their numbers: one ray, one triangle in one part."""
    corners, faces = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], float), [[0, 1, 2]]
    one = trimesh.Trimesh(corners, faces, process=False)
    one.export(tmp_path / "one.ply")
    trimesh.Scene(one).export(tmp_path / "one.glb")
    parts_of(tmp_path / "parts", corners, np.array(faces), np.zeros(1, np.int64))
    contents = {
        "one.ply": "1 triangle",
        "one.glb": "1 instance, 1 triangle; 1 triangle in 1 tree",
        "parts": "1 triangle in 1 part",
    }
    look = ("--eye", "0.2,0.2,9", "--target", "0.2,0.2,0", "--up", "y", "--size", "1x1")
    for name, content in contents.items():
        out = run("render", name, "-o", "a.png", *look, "--samples", 1)[1]
        assert out.startswith(f"a.png: 1 x 1 pixels, {content}\n1 ray in "), out
        hits = "Hits(1 of 1 ray hit 1 instance" if "glb" in name else "Hits(1 of 1 ray hit"
        out = run("cast", name, *look)[1]
        assert out.startswith(f"{hits}, t 9 to 9)\n1 ray in "), out


def test_help_has_two_examples_and_room_for_words(run: Run) -> None:
    """Examples are commands of that name; types are short, and say no range."""
    from typer.main import get_group

    from bvh.apps.cli.cli import EXAMPLES, app

    parsers = get_group(app).commands
    # The benchmarks have those of their own.
    commands = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    assert commands == {*EXAMPLES, "bench"}
    for name, lines in EXAMPLES.items():
        code, out, _ = run(name, "--help")
        assert code == 0 and len(lines) == 2
        for line in lines:
            assert f"bvh {name} {line}".strip() in " ".join(out.split())
            parsers[name].make_context(name, line.split())
        assert "range" not in out and "x>=" not in out


def test_values_out_of_range(run: Run, tmp_path: Path) -> None:
    trimesh.creation.box().export(tmp_path / "m.ply")
    for line, words in (
        ("cast m.ply --threads -2", "threads must be"),
        ("view m.ply --port 70000", "port must be at most 65535"),
        ("render m.ply -o a.png --samples 0", "samples must be"),
        ("warmup --processes -1", "processes must be"),
        ("warmup --processes 0", "processes must be"),
    ):
        code, out, err = run(*line.split())
        assert (code, out, err.count("\n")) == (2, "", 1) and words in err, err
