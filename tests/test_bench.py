"""The benchmarks that people run: peers, tasks, the command, what an interrupted run leaves."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import trimesh

import bvh
from benchmarks import compare, overview, peers, report, scenes, session, tasks, timing
from benchmarks.all_hits import hit_tasks
from benchmarks.casters import Caster, installed
from benchmarks.points import KINDS, QUERIES, places, point_task
from benchmarks.ray_tasks import batch, singles
from benchmarks.tasks import Entrant, Task, affordable, measured
from benchmarks.workloads import workloads
from tests.commands import Run

ROOT = Path(__file__).parents[1]
SIDE, POINTS = 32, 300


@pytest.fixture(scope="module")
def scene() -> scenes.Scene:
    return scenes.load("organic-8")


@pytest.fixture(scope="module")
def questions(scene: scenes.Scene) -> list[Task]:
    """Return one task of every kind that is asked of a peer's tree."""
    tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
    works = {work.name: work for work in workloads(tree, SIDE)}
    found = [batch(tree, work, 1) for work in works.values()]
    found += [*singles(tree, works["random"], 1), *hit_tasks(tree, works["random"], 1)]
    for kind, points in places(tree, POINTS):
        found += [point_task(tree, query, kind, points, 1) for query in QUERIES]
    return found


def test_our_answers_pass_every_check(questions: list[Task]) -> None:
    assert len({task.name for task in questions}) == len(questions) == 6 + 2 + 2 + 3 * len(KINDS)
    for task in questions:
        task.check()
        assert "bvh" in task.ours and task.count > 0


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_answer_as_we_do(
    name: str, questions: list[Task], scene: scenes.Scene, rng: np.random.Generator
) -> None:
    kind = peers.PEERS[name]
    if not installed(kind.module):
        pytest.skip(f"{kind.distribution} is not installed")
    peer = kind.made(scene.vertices, scene.faces)
    answered = 0
    for task in questions:
        entrant = task.entrant(peer, 64)
        if entrant is not None:
            answered += 1
            # Points at the surface have a sign that float32 does not know.
            assert entrant.agrees(entrant.call()) >= (0.9 if "surface" in task.name else 0.98), task
    assert answered >= 8


class Scripted(Caster):
    """A peer of a speed of choice, on a clock that only it moves."""

    name = "Open3D"

    def __init__(self, clock: list[float], fixed: float, each: float) -> None:
        self.clock, self.fixed, self.each = clock, fixed, each


def scripted_task(count: int, share: float = 1.0) -> Task:
    """Return a task whose calls move the clock of `Scripted` peers."""

    def entrant(peer: Any, some: int) -> Entrant:
        def call() -> int:
            peer.clock[0] += peer.fixed + some * peer.each
            return some

        return Entrant(call, lambda result: share)

    return Task("primary", "ray", count, {"bvh": lambda: None}, lambda: None, entrant, {})


@pytest.mark.parametrize("fixed, each, most, least", [
    (0.0, 1e-7, 10**6, 10**6),
    (9.0, 1e-7, 10**6, 10**6),  # a fixed cost is not spread over few
    (0.0, 1e-5, 10_001, 9_999),
    (0.1, 1e-5, 40_001, 39_999),
    (0.0, 1e-2, 64, 64),
])  # fmt: skip
def test_slow_peers_are_asked_about_fewer(
    monkeypatch: pytest.MonkeyPatch, fixed: float, each: float, most: int, least: int
) -> None:
    clock = [0.0]
    monkeypatch.setattr(tasks.time, "perf_counter", lambda: clock[0])
    peer = Scripted(clock, fixed, each)
    assert least <= affordable(scripted_task(10**6), peer) <= most
    monkeypatch.setattr(Scripted, "most_rays", 50)
    assert affordable(scripted_task(10**6), peer) == 50


def test_rows_tell_what_differs_and_what_failed() -> None:
    class Broken(Scripted):
        name = "r-tree"

        @property
        def clock(self) -> Any:
            raise RuntimeError("out of order")

        @clock.setter
        def clock(self, value: Any) -> None:
            pass

    calm = timing.Patience(0.0)
    casters = [Scripted([0.0], 0.0, 0.0), Broken([0.0], 0.0, 0.0)]
    found = measured(scripted_task(1000, share=0.5), casters, 1, calm)
    assert found["agreement"] == {"Open3D": 0.5} and "Open3D" in found["seconds"]
    assert found["failed"] == {"r-tree": "RuntimeError: out of order"}
    # It is no rival then.
    assert report.ratio(found) is None
    text = "\n".join(report.lines([{"mesh": "m", "triangles": 9, "threads": 1, **found}]))
    assert "~ primary: 50.00% of the answers of Open3D are ours, too" in text
    assert "r-tree failed: RuntimeError: out of order" in text


def test_times_are_of_one_ray() -> None:
    row = {"count": 1000, "seconds": {"bvh": [1.0, 2.0, 9.0], "r-tree": [3.0]},
           "counts": {"r-tree": 10}}  # fmt: skip
    assert report.times(row) == {"bvh": 0.002, "r-tree": 0.3}
    assert [report.duration(s) for s in (2.0, 0.0123, 4.56e-6, 7.8e-8)] == [
        "2 s", "12.3 ms", "4.56 us", "78 ns"
    ]  # fmt: skip


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(timing, "foreign_share", lambda *clocks: 0.9)
    monkeypatch.setattr(timing, "_wait_for_calm", waits.append)
    monkeypatch.setattr(timing, "LEAST", 0.01)
    calls: list[int] = []
    contestants = {"bvh": lambda: calls.append(1)}
    seconds, foreign = timing.undisturbed(contestants, 1, patience=timing.Patience(0.0))
    assert foreign == 0.9 and waits == [] and len(calls) == len(seconds["bvh"]) + 1
    timing.undisturbed(contestants, 1, patience=timing.Patience(5.0))
    assert len(waits) == 2 and max(waits) <= 5.0


@pytest.mark.parametrize("name", ["organic", "interior", "terrain", "cad_part"])
def test_meshes_are_those_of_the_files(name: str) -> None:
    made, kept = scenes.load(name), trimesh.load(ROOT / "meshes" / f"{name}.ply", process=False)
    assert np.array_equal(made.vertices, kept.vertices) and np.array_equal(made.faces, kept.faces)


def test_both_folders_can_be_moved() -> None:
    """In a wheel they are inside the package, where their absolute names do not exist."""
    paths = [path for room in ("benchmarks", "meshes") for path in (ROOT / room).rglob("*.py")]
    for path in paths:
        found = re.findall(r"^\s*(?:from|import) (?:benchmarks|meshes)\b", path.read_text(), re.M)
        assert not found, path
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert wheel["targets"]["wheel"]["sources"] == {
        "benchmarks": "bvh/benchmarks", "meshes": "bvh/meshes"
    }  # fmt: skip


def test_a_run_of_the_command(run: Run) -> None:
    only = "primary,diffuse-shuffled,leaks"
    options = ["bench", "organic-4", "--quick", "--threads", "1", "--only", only, "--peers"]
    code, out, err = run(*options, "Open3D", "--json", "new.json", "--chart", "new.svg")
    assert code == 0, err
    assert re.search(r"^organic-4, 320 triangles, 1 thread$", out, re.M)
    assert (
        re.search(r"^primary!? .* ns ", out, re.M) and "aimed at vertices and edges: bvh 0" in out
    )
    figures = json.loads(Path("new.json").read_text())
    assert figures["complete"] and figures["seed"] == 0 and figures["processor"]
    assert [row["what"] for row in figures["rows"]] == ["primary", "diffuse shuffled", "leaks"]
    assert {"bvh", "numba", "numpy", "trimesh"} <= set(figures["versions"])
    chart = "".join(ElementTree.parse("new.svg").getroot().itertext())
    assert figures["processor"] in chart and f"bvh {bvh.__version__}" in chart
    assert "organic-4, 320 triangles, 1 thread" in chart
    code, out, err = run(*options, "Open3D", "--compare", "new.json")
    assert code == 0 and re.search(r"^mesh +what +threads +speed +ratio$", out, re.M)


def test_only_equal_work_is_compared() -> None:
    old, new = row("primary", bvh=1.0), row("primary", bvh=2.0)
    assert len(list(compare.changes([old], [new]))) == 1
    assert not list(compare.changes([old], [{**new, "count": 10}]))


def row(what: str, **seconds: float) -> dict[str, Any]:
    each = {name.replace("_", "-"): [value] * 3 for name, value in seconds.items()}
    return {"mesh": "organic-16", "triangles": 9, "threads": 1, "what": what, "unit": "ray",
            "count": 1000, "seconds": each, "foreign": 0.0}  # fmt: skip


def test_an_interrupted_run_leaves_what_it_has(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(module: str, task: Any, threads: int) -> Iterator[dict[str, Any]]:
        yield row("primary", bvh=1e-4, Open3D=2e-4)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "stream", stream)
    code, out, err = run("bench", "--quick", "--json", "part.json", "--chart", "part.svg")
    assert code == 130 and "interrupted" in err
    assert re.search(r"^primary .* 2\.00", out, re.M)
    figures = json.loads(Path("part.json").read_text())
    assert not figures["complete"] and len(figures["rows"]) == 1
    ElementTree.parse("part.svg")


def test_a_failed_run_leaves_what_it_has(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    options = ["--quick", "--threads", "1", "--only", "primary", "--peers", "Open3D", "--json"]
    assert session.run(["organic-4", "nothing", *options, str(path)], "bench") == 1
    assert "no mesh 'nothing'" in capfd.readouterr().err
    figures = json.loads(path.read_text())
    assert not figures["complete"] and [row["mesh"] for row in figures["rows"]] == ["organic-4"]


def test_the_chart_has_a_dot_for_each_figure() -> None:
    rows = [row("primary", bvh=1.0, Open3D=2.0, r_tree=900.0), row("shadow", bvh=1.0, Warp=0.5)]
    rows[1]["agreement"] = {"Warp": 0.9}
    root = ElementTree.fromstring(overview.draw({"rows": rows}))
    dots = root.findall("{*}circle")
    # Three of the legend.
    assert len(dots) == 3 + 3 and sum(dot.get("fill") == "white" for dot in dots) == 1
    assert [dot.findtext("{*}title") for dot in dots[3:]] == [
        "r-tree: 900",
        "Open3D: 2",
        "Warp: 0.5",
    ]
    with pytest.raises(SystemExit, match="no figures"):
        overview.draw({"rows": []})


@pytest.mark.parametrize("arguments, message", [
    ("--only nothing", "--only knows"), ("--peers me", "--peers knows"), ("--side 30", "multiple"),
    ("--rounds 0", "at least 1"), ("--json no/such.json", "no such folder"),
    ("--compare none.json", "no such file"), ("--no-such-option", "unrecognized"),
    ("--threads 1,x", "numbers such as 1,2, got '1,x'"), ("--threads 0", "numbers such as"),
    (f"--compare {__file__}", "test_bench.py holds no figures of benchmarks"),
])  # fmt: skip
def test_refusals(run: Run, arguments: str, message: str) -> None:
    code, out, err = run("bench", *arguments.split())
    assert code == 2 and message in err and not out


def test_peers_are_listed(run: Run) -> None:
    code, out, _ = run("bench", "--list-peers")
    assert code == 0
    for peer in peers.PEERS.values():
        assert re.search(rf"^{peer.name} .* {peer.distribution} ", out, re.M)


def test_help_is_that_of_the_benchmarks(run: Run) -> None:
    code, out, _ = run("bench", "--help")
    assert code == 0 and "usage: bvh bench" in out and "--patience" in out
