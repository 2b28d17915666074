"""Commands and code of the README and the pages, as typed, where what they name is installed.

Examples of Python's prompt are doctests, which pytest collects; those that it skips, as they need
another library, run here with it. What is not run is listed with the reason, and nothing else.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import trimesh

import bvh
from tests.oracles.devices import DEVICE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "bvh" / "docs").glob("*.md"))]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = SETTINGS["project"]["optional-dependencies"]

# Lines of the shell that are not run, and why.
NOT_RUN = {
    "pip install .": "installations: by .ci/run, and by the commands below",
    "pip install raybvh": "the distribution is on no index yet, as the page says",
    'pip install "raybvh[bench]"': "the same",
    "apt-get install gappa   # Debian, Ubuntu": "it changes the system",
    ".ci/proofs              # all files, in a second": "it needs gappa; .ci/run runs it",
    "ENV BVH_CACHE_DIR=/opt/kernels": "of a Dockerfile",
    'RUN pip install ".[cli]" && bvh warmup --cpu x86-64-v3,x86-64-v4 && chmod -R go+rX '
    "/opt/kernels": "of a Dockerfile; see tests/apps/test_warmup_command.py",
    "bvh bench            # the usual tasks, with all installed peers": "minutes; .ci/run has "
    "--quick",
    "bvh view scene.glb": "a server; see tests/apps/test_viewer_server.py",
    "bvh lab": "a server; see tests/apps/test_lab.py",
    "ssh -L 8080:localhost:8080 machine": "it needs another machine",
    'python3 -m venv .venv && .venv/bin/pip install -q ".[test]" && .venv/bin/python -m pytest': (
        "these are its tests"
    ),
}
# Options that make a command short, which is otherwise run as typed.
SHORTER = {"bvh bench": ["--quick"]}
# Lines of Python that are not run, by what they contain.
NO_EXAMPLES = {
    'bvh.load("s3://': "it needs a bucket",
    "scheduler:8786": "it needs a cluster; see tests/distributed/test_kernel_plugin.py",
    "client.register_plugin": "the same",
    "for moved in simulation": "it needs a simulation; see tests/apps/test_viewer_follows.py",
}


class Block(NamedTuple):
    """A block of code: its page, first line, language, and text."""

    page: str
    line: int
    language: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of code of a page."""
    text = path.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        line = text[: found.start()].count("\n") + 2
        yield Block(path.name, line, found[1], found[2])


BLOCKS = [block for path in PAGES for block in blocks(path)]
LINES = [
    (f"{block.page}:{block.line + k}", line)
    for block in BLOCKS if block.language == ""
    for k, line in enumerate(block.text.splitlines()) if line.strip()
]  # fmt: skip
SCRIPTS = [block for block in BLOCKS if block.language and ">>>" not in block.text]
COMMANDS = [(place, line) for place, line in LINES if line.startswith("bvh ")]


def test_blocks_are_of_known_kinds() -> None:
    """Python with prompts or without, and lines of the shell; all reasons are needed."""
    assert {block.language for block in BLOCKS} == {"", "python"}
    lines = {line for _, line in LINES}
    assert not set(NOT_RUN) - lines
    run = {line for _, line in COMMANDS} | {line for line in lines if line.startswith("python3")}
    assert not lines - run - set(NOT_RUN)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, the current one, with the files that commands and examples name."""
    ball = trimesh.creation.icosphere(subdivisions=2)
    for name in ("part.ply", "scan.ply", "part.stl"):
        ball.export(tmp_path / name)
    (tmp_path / "scans").mkdir()
    ball.export(tmp_path / "scans" / "one.ply")
    np.save(tmp_path / "rays.npy", np.hstack([np.full((9, 3), 4.0), np.full((9, 3), -1.0)]))
    scene = trimesh.Scene()
    for k in range(2):
        at = trimesh.transformations.translation_matrix([2.5 * k, 0.0, 0.0])
        scene.add_geometry(ball, f"ball {k}", transform=at)
    for name in ("scene.glb", "assembly.glb"):
        scene.export(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(words: list[str]) -> None:
    """Run a command of `bvh`; it must succeed."""
    command = [sys.executable, "-m", *words, *SHORTER.get(" ".join(words[:2]), [])]
    place = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=place, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def needs(words: list[str]) -> None:
    """Skip a test whose command needs what is not installed."""
    pytest.importorskip("typer")
    if "--html" in words:
        pytest.importorskip("viser")
    if "--chart" in words:
        pytest.importorskip("matplotlib")


RUN = [pair for pair in COMMANDS if pair[1] not in NOT_RUN]
QUICK = [pair for pair in RUN if re.match("bvh check", pair[1])]
LONG = [pair for pair in RUN if pair not in QUICK]


@pytest.mark.parametrize(
    ("place", "line"),
    [*QUICK, *(pytest.param(*pair, marks=pytest.mark.long) for pair in LONG)],
    ids=lambda each: each if ".md:" in each else "",
)
def test_commands(place: str, line: str, folder: Path) -> None:
    """Commands of `bvh` succeed as typed, and write what they name."""
    words = shlex.split(line, comments=True)
    needs(words)
    run(words)
    outputs = {"-o", "--html", "--json", "--chart"}
    for option, name in pairwise(words):
        if option in outputs:
            assert (folder / name).stat().st_size > 0


SPANS = [
    (path.name, re.sub(r"\s+", " ", span))
    for path in PAGES
    for span in re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", path.read_text("utf-8"),
                                               flags=re.M | re.S))
]  # fmt: skip


# `bvh bench` hands its options on.
OF_BENCH = {
    option
    for path in (ROOT / "benchmarks").glob("*.py")
    for option in re.findall(r'"(--[a-z-]+)"', path.read_text("utf-8"))
}


def test_commands_in_sentences() -> None:
    """Commands, options and extras that texts name are there."""
    pytest.importorskip("typer")
    from typer.main import get_command

    from bvh.apps.cli.cli import app

    group: Any = get_command(app)
    extras, seen = set(), 0
    written = [*SPANS, *((place, line) for place, line in LINES)]
    for page, span in written:
        extras |= set(re.findall(r'pip install[^"]*"(?:raybvh|\.)\[([\w,]+)\]"', span))
        for text in re.findall(r"(?:^|/|&& )bvh ([a-z]\w+[^&]*)", span):
            name, *words = shlex.split(text, comments=True)
            assert name in group.commands, (page, span)
            known = {opt for each in group.commands[name].params for opt in each.opts}
            known |= OF_BENCH if name == "bench" else set()
            given = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            assert given <= known | {"--help"}, (page, span)
            seen += 1
        for module in re.findall(r"python -m ([\w.]+)", span):
            assert find_spec(module) or module == "mkdocs", (page, span)
    assert seen > 20
    assert {name for names in extras for name in names.split(",")} <= set(EXTRAS)


def skipped(test: doctest.DocTest) -> list[doctest.Example]:
    """Return the examples that pytest skips."""
    return [each for each in test.examples if each.options.get(doctest.SKIP)]


def of_page(path: Path, names: dict[str, Any]) -> doctest.DocTest:
    """Return the examples of a page as one test."""
    return doctest.DocTestParser().get_doctest(path.read_text("utf-8"), names, path.name, None, 0)


WITH_SKIPS = [path for path in PAGES if skipped(of_page(path, {}))]


FEW = [path for path in WITH_SKIPS if path.name == "viewing.md"]


@pytest.mark.parametrize(
    "path",
    [*FEW, *(pytest.param(p, marks=pytest.mark.long) for p in WITH_SKIPS if p not in FEW)],
    ids=lambda path: path.name,
)
def test_examples_that_need_more(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """They run, with all examples of their page before them, where their libraries are there."""
    test = of_page(path, {})
    for each in skipped(test):
        if not any(part in each.source for part in NO_EXAMPLES):
            del each.options[doctest.SKIP]
            for name in re.findall(r"^(?:import|from) (\w+)", each.source):
                pytest.importorskip(name, exc_type=ImportError)
    if path.name == "moving_over.md":
        moving_over(folder, monkeypatch)
    if path.name == "viewing.md":
        pytest.importorskip("viser")
        # Ports are whichever are free.
        for each in test.examples:
            each.want = re.sub(r":8080", ":...", each.want)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False)
    if "viewer" in test.globs:
        test.globs["viewer"].close()
    assert results.failed == 0, capsys.readouterr().out


def moving_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the file that the page names, and show no windows."""
    import ifcopenshell.geom
    import pyvista

    from tests.compat.test_compat_ifcopenshell import CASES, model

    file, _ = model(*CASES["walls"][:2])
    file.write(str(folder / "building.ifc"))
    # The page replaces it.
    monkeypatch.setattr(ifcopenshell.geom, "tree", ifcopenshell.geom.tree)
    monkeypatch.setattr(pyvista.DataSet, "plot", lambda *_, **__: None)


def test_reasons_are_needed() -> None:
    """Each example that is not run has a reason, and each reason an example."""
    left = [each.source for path in WITH_SKIPS for each in skipped(of_page(path, {}))]
    assert all(any(part in source for source in left) for part in NO_EXAMPLES)


def test_pages_are_collected() -> None:
    """The doctests of all of them, by the settings of pytest."""
    options = SETTINGS["tool"]["pytest"]["ini_options"]
    assert {"bvh", "README.md"} <= set(options["testpaths"])
    assert "--doctest-glob=*.md" in options["addopts"]


@pytest.mark.long
@pytest.mark.parametrize("block", SCRIPTS, ids=lambda block: f"{block.page}:{block.line}")
def test_scripts(block: Block, tmp_path: Path) -> None:
    """Blocks without prompts run, with the names that their pages give."""
    source = block.text
    for name in re.findall(r"\b(torch|warp)\b", source):
        pytest.importorskip(name)
    ball = bvh.BVH.from_mesh(trimesh.creation.icosphere(subdivisions=2))
    names: dict[str, Any] = {"ball": ball, "tree": ball, "bvh": bvh, "np": np}
    names["__name__"] = "__main__"
    if "warp" in source:
        # Warp reads the source of kernels from files.
        import warp as wp

        directions = np.random.default_rng(1).standard_normal((8, 3))
        names["beams"] = wp.array(directions, dtype=wp.vec3d, device=DEVICE)
        names["ranges"] = wp.zeros(8, dtype=wp.float64, device=DEVICE)
        source = source.replace('"cuda"', repr(DEVICE))
    elif "torch" in source:
        names["torch"] = pytest.importorskip("torch")
    path = tmp_path / "block.py"
    path.write_text(source)
    exec(compile(source, str(path), "exec"), names)
    if "ranges" in names:
        assert np.allclose(names["ranges"].numpy(), ball.closest_hit([0.0, 0.0, 0.0], directions).t)


@pytest.mark.long
@pytest.mark.parametrize("line", [line for _, line in LINES if line.startswith("python3")])
def test_the_first_command(line: str, tmp_path: Path) -> None:
    """In a copy of the repository, with an empty home, in a new environment."""
    if line in NOT_RUN:
        pytest.skip(NOT_RUN[line])
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    home = tmp_path / "home"
    home.mkdir()
    place = {k: v for k, v in os.environ.items() if not k.startswith(("BVH_", "PYTHON", "VIRTUAL"))}
    place |= {"HOME": str(home)}
    typed = line.replace("python3 ", f"{shlex.quote(sys.executable)} ", 1)
    done = subprocess.run(
        ["bash", "-c", typed], cwd=tmp_path, env=place, capture_output=True, text=True, check=False
    )
    if "No matching distribution found" in done.stderr:
        pytest.skip("no index can be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "picture.png").stat().st_size > 10_000
