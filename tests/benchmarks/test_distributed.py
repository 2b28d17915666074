"""The benchmark of clusters and of meshes in parts: figures of all of it, and wrong answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bvh
from benchmarks import plan
from benchmarks.options import options_of
from benchmarks.session import run as run_session
from benchmarks.tasks import parts

pytest.importorskip("distributed")


@pytest.mark.long
def test_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.json"
    options = ["organic-8", "--quick", "--task", "cluster,parts", "--json", str(path)]
    assert run_session(options, "bench") == 0
    rays, graph, mesh = (row["parts"] for row in json.loads(path.read_text())["rows"])
    assert rays["ratio"] > 0 and rays["worker MB"] > rays["scheduler growth"]
    # The tree goes to the scheduler, to a worker, and from there to the other one.
    assert graph["tasks"] > 16 and rays["B/ray"] > 0
    assert 0.9 < graph["MB sent at first"] / (3 * graph["tree MB"]) < 4.0
    assert mesh["compared"] > 100 and mesh["hits"] > 10_000
    assert "rays on two processes, organic-8, 1\xa0280 triangles" in capsys.readouterr().out


@pytest.mark.long
def test_costs(tmp_path: Path) -> None:
    path = tmp_path / "new.json"
    assert run_session(["--quick", "--task", "cluster-costs", "--json", str(path)], "bench") == 0
    costs, *workers = (row["parts"] for row in json.loads(path.read_text())["rows"])
    assert all(value > 0 for name, value in costs.items() if "byte" not in name)
    assert len(workers) == 2 and all(row["loaded: first"] > 0 for row in workers)


def test_each_task_has_a_process() -> None:
    options = options_of(["--task", "distributed", "--rays", "1e9", "--threads", "2"], "bench")
    found = [(job.mesh, job.tasks, job.threads) for job in plan.jobs(options)]
    assert found == [("organic", (task,), 2) for task in ("cluster", "cluster-costs", "parts")]
    assert options.rays == 10**9


def test_wrong_answers_of_parts_are_found() -> None:
    """Of the middle one of nine tiles."""
    cells = 4
    whole = [parts.tile(row, column, cells) for row in range(3) for column in range(3)]
    starts = np.cumsum([0, *(len(vertices) for vertices, _ in whole[:-1])])
    tree = bvh.BVH.from_triangles(
        np.concatenate([vertices for vertices, _ in whole]),
        np.concatenate([faces + start for (_, faces), start in zip(whole, starts, strict=True)]),
    )
    batch = parts.rays(0, 2000, 3.0 * cells)
    hits = tree.closest_hit(*batch)
    assert parts.compare(batch, hits, 3, cells) > 100
    with pytest.raises(SystemExit, match="wrong answer"):
        parts.compare(batch, replace(hits, t=np.nextafter(hits.t, 0.0)), 3, cells)
