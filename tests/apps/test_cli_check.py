"""`bvh check`: tables, JSON, exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

from tests.commands import Run, strict_json

pytest.importorskip("typer")
pytest.importorskip("rich")


def saved(path: Path, *places: float, last: trimesh.Trimesh | None = None) -> Path:
    """Save boxes of size 1 along x."""
    graph = trimesh.Scene()
    for k, x in enumerate(places):
        mesh = last if last is not None and k == len(places) - 1 else trimesh.creation.box()
        matrix = np.eye(4)
        matrix[0, 3] = x
        graph.add_geometry(mesh, f"box {k}", f"box {k}", transform=matrix)
    graph.export(path / "boxes.glb")
    return path / "boxes.glb"


def test_exit_codes(run: Run, tmp_path: Path) -> None:
    """Clear, touching, allowed to touch, overlapping, ignored, and within tolerances."""
    for places, options, wanted in (
        ((0.0, 2.0), (), 0), ((0.0, 1.0), (), 1), ((0.0, 1.0), ("--allow-touching",), 0),
        ((0.0, 0.5, 1.5), (), 2), ((0.0, 0.5), ("--allow-touching",), 2),
        ((0.0, 1.25), ("--margin", "0.25"), 1), ((0.0, 1.25), ("--margin", "0.2"), 0),
        ((0.0, 0.5), ("--ignore", "box 1, box 0"), 0), ((0.0, 0.5), ("--ignore", "0,1"), 0),
        ((0.0, 0.5), ("--max-volume", "0.5"), 1), ((0.0, 0.5), ("--max-volume", "0.25"), 2),
        ((0.0, 0.5), ("--max-volume", "0.5", "--allow-touching"), 0),
        ((0.0,), (), 0),
    ):  # fmt: skip
        path = saved(tmp_path, *places)
        code, out, err = run("check", path, *options)
        assert (code, err.strip()) == (wanted, ""), (places, options, out)
        code, out, err = run("check", path, "--json", *options)
        assert (code, strict_json(out)["exit_code"]) == (wanted, wanted)


def test_tables_and_json(run: Run, tmp_path: Path) -> None:
    """A line for each pair; the records of `Interferences.records`."""
    path = saved(tmp_path, 0.0, 0.5, 1.5)
    out = run("check", path)[1]
    assert "box 0" in out and "overlapping  0.5" in out and "3 instances" in out
    told = strict_json(run("check", path, "--json")[1])
    assert (told["instances"], told["touching"], told["overlapping"]) == (3, 1, 1)
    pairs = {frozenset(pair["names"]): (pair["relation"], pair["volume"]) for pair in told["pairs"]}
    assert pairs[frozenset(["box 0", "box 1"])] == ("overlapping", 0.5)
    assert pairs[frozenset(["box 1", "box 2"])] == ("touching", 0.0)


def test_meshes_with_open_edges(run: Run, tmp_path: Path) -> None:
    """May overlap, in the row that says so; `info` counts open edges."""
    cube = trimesh.creation.box()
    torn = trimesh.Trimesh(cube.vertices, cube.faces[1:], process=False)
    path = saved(tmp_path, 0.0, 3.0, 3.5, last=torn)
    code, out, _ = run("check", path, "--allow-touching")
    assert code == 2 and "unknown" in out and "has 3 open edges" in out
    told = strict_json(run("info", "--json", path)[1])
    assert (told["closed"], told["open_edges"], told["oriented"]) == (False, 3, True)


def test_errors(run: Run, tmp_path: Path) -> None:
    """Have exit codes of their own, as 2 is an overlap."""
    path = saved(tmp_path, 0.0, 2.0)
    for options, text in (
        (("--ignore", "box 0"), "two ids or names"), (("--ignore", "0,9"), "no instance 9"),
        (("--margin", "-1"), "margin must be"), (("--max-volume", "nan"), "at least 0"),
    ):  # fmt: skip
        code, out, err = run("check", path, *options)
        assert (code, out) == (3, "") and text in err
    assert run("check", tmp_path / "none.glb")[0] == 3
