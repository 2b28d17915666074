"""The benchmarks: peers, tasks, the command, and the figures of an interrupted run."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import trimesh

import bvh
from benchmarks import peers, plan, scenes, timing
from benchmarks.figures import chart, compare, report
from benchmarks.figures.rows import duration, ratio, times
from benchmarks.options import options_of
from benchmarks.peers.caster import Caster, Query
from benchmarks.session import run as run_session
from benchmarks.tasks import task as tasks
from benchmarks.tasks.clearances import clearances
from benchmarks.tasks.instances import lattice
from benchmarks.tasks.motion import moving, picks
from benchmarks.tasks.overlaps import overlaps
from benchmarks.tasks.points import KINDS, points
from benchmarks.tasks.rays import all_hits, batches, singles
from benchmarks.tasks.task import Setting, Task, affordable, measured
from tests.commands import Run

ROOT = Path(__file__).parents[2]
SIDE, POINTS = 32, 300
BENCH = "bench", "organic-4", "--quick", "--threads", "1"

drawn = pytest.mark.skipif(find_spec("matplotlib") is None, reason="charts need matplotlib")


@pytest.fixture(scope="module")
def scene() -> scenes.Scene:
    return scenes.load("organic-8")


@pytest.fixture(scope="module")
def questions() -> list[Task]:
    """Return one task of every kind that is asked of a peer's tree."""
    options = {"mesh": "organic-8", "quality": None, "threads": 1, "tasks": plan.TASKS}
    setting = Setting({**options, "side": SIDE, "points": POINTS, "full": True}, [])
    makers = (batches, singles, all_hits, points, overlaps, clearances)
    return [task for make in makers for task in make(setting)]


def test_our_answers_pass_every_check(questions: list[Task]) -> None:
    assert len({task.name for task in questions}) == len(questions)
    assert len(questions) == 6 + 3 + 3 * 2 + 3 * len(KINDS) + 3 + 4
    for task in questions:
        task.check()
        assert "bvh" in task.ours and task.count > 0


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_answer_as_we_do(name: str, questions: list[Task], scene: scenes.Scene) -> None:
    kind = peers.PEERS[name]
    if not kind.is_installed():
        pytest.skip(f"{kind.distribution} is not installed")
    peer = kind.of_mesh(scene.vertices, scene.faces)
    answered = 0
    for task in questions:
        picked = task.pick(64)
        query = task.query(peer, picked)
        if query is not None:
            answered += 1
            agreement = task.agreement(query.values(query.call()), picked)
            # Points at the surface have a sign that float32 does not know.
            assert agreement >= (0.9 if "surface" in task.name else 0.98), task.name
    assert answered >= (1 if name == "fcl" else 8)


@pytest.mark.long
def test_moving_scenes_pass_their_checks(scene: scenes.Scene) -> None:
    """Picks, moving instances, and what is timed of them."""
    instances, whole = lattice(scenes.load("organic-3"), 8)
    for task in (picks(instances, whole), moving(instances, whole, 1)):
        task.check()
        for call in task.ours.values():
            call()


def test_a_wrong_overlap_is_found(scene: scenes.Scene, questions: list[Task]) -> None:
    task = next(task for task in questions if task.name == "two meshes")
    pairs, *triangles = task.check.args  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="wrong answer"):
        task.check.func(pairs[1:], *triangles)  # type: ignore[attr-defined]


class Scripted(Caster):
    """A peer of a speed of choice, on a clock that only it moves."""

    name = "Open3D"

    def __init__(self, clock: list[float], fixed: float, each: float) -> None:
        self.clock, self.fixed, self.each = clock, fixed, each


def scripted_task(count: int, share: float = 1.0) -> Task:
    """Return a task whose calls move the clock of `Scripted` peers."""

    def query(peer: Any, picked: Any) -> Query:
        def call() -> None:
            peer.clock[0] += peer.fixed + len(picked) * peer.each

        return Query(call, lambda result: result)

    mesh = scenes.Scene("m", np.eye(3), np.array([[0, 1, 2]], np.int32))
    ours = {"bvh": lambda: None}
    return Task(
        "primary", "ray", count, mesh, ours, lambda: None, query, lambda found, picked: share
    )


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
    monkeypatch.setattr(Scripted, "max_rays", 50)
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
    # Seconds are of so many rays.
    assert found["counts"] == {"bvh": 1000, "Open3D": 1000}
    # It is no rival then.
    assert ratio(found) is None
    paper = io.StringIO()
    report.print_rows([{"mesh": "m", "triangles": 9, "threads": 1, **found}], paper)
    text = paper.getvalue()
    assert "~ primary: 50.00% of the answers of Open3D are ours, too" in text
    assert "r-tree failed: RuntimeError: out of order" in text


def test_times_are_of_one_ray() -> None:
    row = {"count": 1000, "seconds": {"bvh": [1.0, 2.0, 9.0], "r-tree": [3.0]},
           "counts": {"r-tree": 10}}  # fmt: skip
    assert times(row) == {"bvh": 0.002, "r-tree": 0.3}
    assert [duration(s) for s in (2.0, 0.0123, 4.56e-6, 7.8e-8)] == [
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


@pytest.mark.long
@drawn
def test_a_run_of_the_command(run: Run) -> None:
    only = "primary,diffuse-shuffled,leaks"
    options = *BENCH, "--peers", "Open3D", "--only"
    code, out, err = run(*options, only, "--json", "new.json", "--chart", "new.svg")
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


@pytest.mark.long
def test_a_run_is_compared_with_another(run: Run) -> None:
    options = *BENCH, "--only", "primary"
    assert run(*options, "--json", "new.json")[0] == 0
    code, out, _ = run(*options, "--compare", "new.json")
    assert code == 0 and re.search(r"^mesh +what +threads +speed +ratio$", out, re.M)


def test_only_equal_work_is_compared() -> None:
    old, new = row("primary", bvh=1.0), row("primary", bvh=2.0)
    assert len(list(compare.changes([old], [new]))) == 1
    assert not list(compare.changes([old], [{**new, "count": 10}]))


def row(what: str, **seconds: float) -> dict[str, Any]:
    each = {name.replace("_", "-"): [value] * 3 for name, value in seconds.items()}
    return {"mesh": "organic-16", "triangles": 9, "threads": 1, "what": what, "unit": "ray",
            "count": 1000, "seconds": each, "foreign": 0.0}  # fmt: skip


@drawn
def test_an_interrupted_run_leaves_what_it_has(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(module: str, task: Any, threads: int) -> Iterator[dict[str, Any]]:
        yield row("primary", bvh=1e-4, Open3D=2e-4)
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "stream", stream)
    code, out, err = run("bench", "--quick", "--json", "part.json", "--chart", "part.svg")
    assert code == 130 and "interrupted" in err
    assert re.search(r"^primary .* 2\.00", out, re.M)
    figures = json.loads(Path("part.json").read_text())
    assert not figures["complete"] and len(figures["rows"]) == 1
    ElementTree.parse("part.svg")


@pytest.mark.long
def test_a_failed_run_leaves_what_it_has(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    options = ["--quick", "--threads", "1", "--only", "primary", "--peers", "Open3D", "--json"]
    assert run_session(["organic-4", "nothing", *options, str(path)], "bench") == 1
    assert "no mesh 'nothing'" in capfd.readouterr().err
    figures = json.loads(path.read_text())
    assert not figures["complete"] and [row["mesh"] for row in figures["rows"]] == ["organic-4"]


@drawn
def test_the_chart_has_a_dot_for_each_figure() -> None:
    rows = [row("primary", bvh=1.0, Open3D=2.0, r_tree=900.0), row("shadow", bvh=1.0, Warp=0.5)]
    rows[1]["agreement"] = {"Warp": 0.9}
    (axis,) = chart.overview({"rows": rows}).axes
    dots = [line for line in axis.lines if line.get_marker() == "o"]
    assert [(dot.get_label(), *dot.get_xdata()) for dot in dots] == [
        ("Open3D", 2.0),
        ("r-tree", 900.0),
        ("Warp", 0.5),
    ]
    assert [dot.get_markerfacecolor() == "none" for dot in dots] == [False, False, True]
    assert "bvh is so many times as fast" in axis.get_xlabel()
    # Of one peer that is nearly as fast, both sides of 1 are seen.
    (axis,) = chart.overview({"rows": [row("primary", bvh=1.0, Warp=1.1)]}).axes
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0.5", "1", "2"]
    with pytest.raises(SystemExit, match="no figures"):
        chart.overview({"rows": []})


@drawn
def test_a_file_of_figures_is_printed_drawn_and_compared(run: Run) -> None:
    """Nothing is measured then."""
    path = Path("old.json")
    rows = [
        {**row("primary", bvh=1e-4), "triangles": size, "mesh": f"m-{size}"} for size in (9, 99)
    ]
    cores = {"mesh": "m-9", "triangles": 9, "threads": 1, "what": "random, 4^2", "table": "cores",
             "parts": {"2 virtual": 1.9, "2 threads": 1.8}}  # fmt: skip
    path.write_text(json.dumps({"rows": [*rows, cores]}))
    given = ["--from", path, "--compare", path, "--task", "scaling"]
    for kind in chart.KINDS:
        code, out, err = run("bench", *given, "--chart", f"{kind}.svg", "--chart-kind", kind)
        assert code == 0, err
        assert "m-99, 99 triangles, 1 thread" in out and "geometric mean +0.0%" in out
        assert "primary, 1 thread: time grew 1.00 times, no faster than log2(n)" in out
        ElementTree.parse(f"{kind}.svg")
    path.write_text(json.dumps({"rows": rows}))
    code, _, _ = run("bench", *given, "--chart", "no.svg", "--chart-kind", "cores")
    assert code == "no cores were measured: run --task cores"


@pytest.mark.parametrize("arguments, message", [
    ("--only nothing", "--task knows"), ("--peers me", "--peers knows"), ("--side 30", "multiple"),
    ("--rounds 0", "at least 1"), ("--json no/such.json", "no such folder"),
    ("--compare none.json", "No such file"), ("--no-such-option", "unrecognized"),
    ("--threads 1,x", "numbers such as 1,2, got '1,x'"), ("--threads 0", "numbers such as"),
    (f"--compare {__file__}", "test_bench.py holds no figures of benchmarks"),
    ("--from none.json", "No such file"), ("--task cold --verbs nothing", "--verbs knows"),
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
    assert code == 0 and "Usage: bvh bench" in out and "--patience" in out
    assert all(name in out for name in plan.GROUPS) and "Options ─" in out and "rates.json" in out


def test_no_more_threads_than_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they are asked for; a quick run takes one, and few tasks."""
    monkeypatch.setattr(plan, "available", lambda: 1)
    assert [job.threads for job in plan.jobs(options_of(["a.ply"], "bench"))] == [1]
    asked = options_of(["a.ply", "--threads", "1,2"], "bench")
    assert [job.threads for job in plan.jobs(asked)] == [1, 2]
    (job,) = plan.jobs(options_of(["--quick"], "bench"))
    assert job.threads == 1 and set(job.tasks) == set(plan.FEW)


@drawn
def test_without_peers_the_chart_is_of_rates(run: Run) -> None:
    """Also on a busy machine, whose figures are marked."""
    rows = [{**row("primary", bvh=1e-4), "foreign": 0.5}]
    Path("busy.json").write_text(json.dumps({"rows": rows}))
    code, out, err = run("bench", "--from", "busy.json", "--chart", "busy.svg")
    assert code == 0 and "No verdict" in out, err
    text = "".join(ElementTree.parse("busy.svg").getroot().itertext())
    assert "Million rays per second" in text and "primary !" in text and "unreliable" in text


def test_groups_of_tasks_are_named() -> None:
    options = options_of(["a.ply", "b.ply", "--task", "points,cold", "--threads", "1"], "bench")
    assert options.tasks == ["closest-point", "signed-distance", "winding-number", "cold"]
    found = [(job.mesh, job.tasks[0]) for job in plan.jobs(options)]
    assert found == [("a.ply", "closest-point"), ("b.ply", "closest-point"), ("", "cold")]
    options = options_of(["--large", "--threads", "1,2"], "bench")
    assert [job.mesh for job in plan.jobs(options) if "leaks" in job.tasks] == ["interior-16"] * 2


@pytest.mark.long
def test_memory_of_a_build(run: Run) -> None:
    options = ["--task", "memory", "--peers", "Warp", "--threads", "1", "--json", "new.json"]
    code, out, err = run("bench", "organic-8", *options)
    assert code == 0, err
    rows = json.loads(Path("new.json").read_text())["rows"]
    assert [row["what"] for row in rows] == ["medium", "high", "compact"]
    assert all(0 < row["parts"]["tree B/triangle"] < 500 for row in rows) and "peak MiB" in out


@pytest.mark.long
def test_rays_at_vertices_and_edges(run: Run) -> None:
    options = ["--task", "features", "--peers", "embreex", "--points", "99", "--rounds", "1"]
    code, _, err = run("bench", *options, "--patience", "1", "--json", "new.json")
    assert code == 0, err
    rows = json.loads(Path("new.json").read_text())["rows"]
    assert len(rows) == 37 and all({"bvh", "bvh, beside"} <= set(row["seconds"]) for row in rows)


@pytest.mark.long
def test_rays_hit_nothing_that_they_leave(run: Run) -> None:
    options = ["--task", "precision", "--peers", "embreex", "--points", "3", "--json", "new.json"]
    code, _, err = run("bench", *options)
    assert code == 0, err
    rows = json.loads(Path("new.json").read_text())["rows"]
    ours = [row for row in rows if row["what"].startswith("bvh")]
    assert len(ours) == 6 and not any(value for row in ours for value in row["parts"].values())
