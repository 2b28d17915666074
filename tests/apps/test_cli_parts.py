"""The command line on meshes in parts: they answer, and look, as the one mesh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trimesh import Trimesh

import bvh
from bvh.distributed.out_of_core import partitioning
from meshes.sphere import geodesic_sphere
from tests.commands import Run, strict_json

pytest.importorskip("typer")
pytest.importorskip("rich")


@pytest.fixture
def folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of several parts of two files, beside a file with all of it."""
    monkeypatch.setattr(partitioning, "BUILD_BYTES", partitioning.SMALLEST_MEMORY // 400)
    balls = [Trimesh(*geodesic_sphere(6), process=False) for _ in range(2)]
    balls[1].apply_translation([1.5, 0.5, 0.25])
    balls[0].export(tmp_path / "a.ply")
    balls[1].export(tmp_path / "b.stl")
    both = [(ball.vertices.astype(np.float32), ball.faces) for ball in balls]
    vertices = np.concatenate([points for points, _ in both])
    faces = np.concatenate([both[0][1], both[1][1] + len(both[0][0])])
    np.savez(tmp_path / "whole.npz", vertices=vertices, faces=faces)
    code, out, err = run("partition", "a.ply", "b.stl", "-o", "folder", "--memory", "50MB")
    assert (code, err.strip()) == (0, "")
    assert out.startswith("folder: 1\xa0440 triangles in ") and out.endswith(" MiB\n")
    return tmp_path / "folder"


def test_info(run: Run, folder: Path) -> None:
    """As tables and as JSON."""
    parts: Any = bvh.load(folder)
    assert parts.part_count > 3
    code, out, err = run("info", "folder")
    assert (code, err.strip()) == (0, "")
    text = " ".join(out.split())
    assert f"triangles 1 440 parts {parts.part_count} " in text
    assert "first id triangles name 0 720 a.ply 720 720 b.stl" in text
    told = strict_json(run("info", "folder", "--json")[1])
    assert [told["lower"], told["upper"]] == parts.bounds.tolist()
    assert told["bytes"] == sum(p.tree_bytes + p.ids_bytes for p in parts.records)
    assert told["sources"][1] == {"name": "b.stl", "first": 720, "triangles": 720}
    told = strict_json(run("info", "folder", "--json", "--details")[1])
    assert [p["bounds"] for p in told["part_records"]] == [p.bounds for p in parts.records]


def test_parts_without_a_valid_triangle(run: Run, tmp_path: Path) -> None:
    """Their bounds are null in JSON."""
    (tmp_path / "nothing.obj").write_text("v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert run("partition", "nothing.obj", "-o", "parts")[0] == 0
    assert strict_json(run("info", "parts", "--json")[1])["lower"] == [None] * 3
    assert (
        strict_json(run("info", "parts", "--json", "--details")[1])["part_records"][0]["bounds"]
        is None
    )
    assert "nan" in run("info", "parts")[1]
    assert "--eye" in run("render", "parts", "-o", "a.png")[2]
    seen = ("--size", "4x4", "--eye", "0,0,5", "--target", "0,0,0", "--up", "0,1,0")
    assert run("render", "parts", "-o", "a.png", *seen)[0] == 0
    assert "Hits(0 of 16 rays hit)" in run("cast", "parts", *seen)[1]


def test_cast(run: Run, folder: Path, rng: np.random.Generator) -> None:
    """Columns of hits are those of the one mesh; ids are int64."""
    rays = rng.normal(size=(60, 8))
    rays[:, :3] *= 0.3
    rays[:, 6:] = np.sort(rays[:, 6:] * 3, axis=1)
    np.save("rays.npy", rays)
    np.savetxt("rays.csv", rays[:, :6], "%.17g", ",")
    for given in (("--size", "20x15"), ("--rays", "rays.npy"), ("--rays", "rays.csv")):
        told = [run("cast", name, *given, "-o", f"{name}.csv") for name in ("folder", "whole.npz")]
        assert told[0][0] == 0 and told[0][2] == ""
        assert told[0][1].splitlines()[0] == told[1][1].splitlines()[0]
        assert Path("folder.csv").read_bytes() == Path("whole.npz.csv").read_bytes()
    assert run("cast", "folder", "-o", "hits.npz", "--rays", "rays.npy")[0] == 0
    with np.load("hits.npz") as hits:
        assert hits["prim_id"].dtype == np.int64 and (hits["prim_id"] >= 0).any()


@pytest.mark.parametrize("shade", ["normals", "clay", "ao", "shadow", "depth", "id", "material"])
def test_render(shade: str, run: Run, folder: Path) -> None:
    """The file is that of the one mesh, byte for byte."""
    options = ("--size", "32x24", "--shade", shade, "--light-rays", 4, "--softness", 5)
    outs = []
    for name in ("folder", "whole.npz"):
        for ending in ("png", "npy") if shade not in ("clay", "material") else ("png",):
            code, out, err = run("render", name, "-o", f"{name}.{ending}", *options)
            assert (code, err.strip()) == (0, "")
            outs.append(out.splitlines())
    assert Path("folder.png").read_bytes() == Path("whole.npz.png").read_bytes()
    assert "32 x 24 pixels, 1\xa0440 triangles in" in outs[0][0]
    if shade not in ("clay", "material"):
        found, wanted = np.load("folder.npy"), np.load("whole.npz.npy")
        np.testing.assert_array_equal(found, wanted)
        assert shade == "id" or found.dtype == wanted.dtype


def test_urls(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place of fsspec is as good as a folder."""
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("BVH_PARTS_DIR", str(tmp_path / "fetched"))
    code, out, err = run("partition", "a.ply", "b.stl", "-o", "memory://cli")
    assert (code, err.strip()) == (0, "") and out.startswith("memory://cli: 1\xa0440 triangles")
    for name in ("folder", "memory://cli"):
        assert run("info", name)[0] == run("info", name, "--details")[0] == 0
        file = f"{name[:3]}.png"
        assert run("render", name, "-o", file, "--size", "32x24", "--shade", "clay")[0] == 0
    assert Path("fol.png").read_bytes() == Path("mem.png").read_bytes()
    assert "memory://no: holds no index.json" in run("info", "memory://no")[2]
    fsspec.filesystem("memory").rm("/cli", recursive=True)


ONLY = "folder holds parts, which only info, cast and render take"
ERRORS = {
    "build folder -o x.bvh": ONLY,
    "view folder --no-open": ONLY,
    "build s3://bucket/city -o x.bvh": "take URLs",
    "cast folder --flatten": "--flatten",
    "render folder -o x.png --shade cost": 'shade "cost" is for trees',
    "render folder -o x.png --shade uv": "needs texture coordinates",
    "info unfinished": "holds no index.json",
    "cast unfinished": "holds no index.json",
    "render unfinished -o x.png": "holds no index.json",
    "cast damaged --size 8x8": "part 1 (00001.bvh)",
    "render damaged -o x.png --size 8x8": "part 1 (00001.bvh)",
    "info broken": "index.json",
    "partition a.ply -o folder": "folder has files in it",
    "partition a.ply -o a.ply": "a.ply",
    "partition missing.ply -o new": "missing.ply",
    "partition folder -o new": "no such file",
    "partition a.ply -o new --memory 1MB": "memory",
    "partition a.ply -o new --memory much": "memory",
    "partition a.ply -o new --quality best": "quality",
    "partition a.ply -o nothing://x": "nothing",
}


@pytest.mark.filterwarnings("error")
def test_errors(run: Run, folder: Path, tmp_path: Path) -> None:
    """One line on stderr that names what is wrong, exit code 2, and no traceback."""
    for name in ("unfinished", "damaged", "broken"):
        (tmp_path / name).mkdir()
        for file in folder.iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    (tmp_path / "unfinished" / "index.json").unlink()
    (tmp_path / "damaged" / "00001.bvh").write_bytes(b"cut off")
    (tmp_path / "broken" / "index.json").write_text("{}")
    for line, words in ERRORS.items():
        code, out, err = run(*line.split())
        assert (code, out) == (2, ""), line
        lines = err.strip("\n").split("\n")
        assert len(lines) == 1 and lines[0].startswith("bvh: ") and words in lines[0], (line, err)
        assert not (tmp_path / "x.png").exists() and not (tmp_path / "x.bvh").exists()


def test_interrupted_partition(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C leaves nothing that other commands take for parts; the next run uses the folder."""
    build, calls = partitioning._build, []

    def interrupt(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return build(*given)

    monkeypatch.setattr(partitioning, "_build", interrupt)
    code, out, err = run("partition", "a.ply", "b.stl", "-o", "new", "--memory", "50MB")
    assert (code, out) == (130, "") and err.strip() in ("", "bvh: interrupted")
    assert "holds no index.json" in run("info", "new")[2]
    assert run("partition", "a.ply", "b.stl", "-o", "new", "--memory", "50MB")[0] == 0
    index, again = (json.loads(Path(n, "index.json").read_text()) for n in ("folder", "new"))
    assert index["sources"] == again["sources"]
    assert [part["bounds"] for part in index["parts"]] == [p["bounds"] for p in again["parts"]]


def test_help_and_completion(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command and its options are listed."""
    from bvh.apps.cli.cli import app

    assert "partition" in run("--help")[1]
    text = run("partition", "--help")[1]
    assert all(name in text for name in ("--output", "--memory", "--quality", "--threads"))
    for name in ("info", "cast", "render"):
        assert "partition" in run(name, "--help")[1]
    for words, wanted in (("bvh par", "partition"), ("bvh cast --fla", "--flatten")):
        monkeypatch.setenv("_BVH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        with pytest.raises(SystemExit):
            app(prog_name="bvh")
        assert capsys.readouterr().out == f"{wanted}\n"
