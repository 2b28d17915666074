"""The harness of benchmarks: rays, checks of answers, tables, comparisons and charts."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import trimesh

import bvh
from benchmarks import scenes, timing
from benchmarks.figures import chart, compare, report
from benchmarks.figures.rows import growth, lowest_ratio, mean_ratio, means_of_workloads, times
from benchmarks.peers.caster import Answer, Ours
from benchmarks.tasks import validation
from benchmarks.workloads import BATCHES, Workload, tiles, workloads
from bvh.runtime.arguments import grouped
from meshes.interior import interior
from meshes.organic import organic

SIDE = 32
ROOT = Path(chart.__file__).parents[1]


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    vertices, faces = organic(8)
    return bvh.BVH.from_triangles(vertices.astype(np.float32), faces)


@pytest.fixture(scope="module")
def works(tree: bvh.BVH) -> dict[str, Workload]:
    return {work.name: work for work in workloads(tree, SIDE)}


def test_workloads_are_what_they_say(works: dict[str, Workload]) -> None:
    assert list(works) == BATCHES
    for name in ("primary", "primary tiled", "random"):
        assert works[name].origins.shape == works[name].directions.shape == (SIDE * SIDE, 3)
    for work in works.values():
        assert np.isfinite(work.origins).all() and np.isfinite(work.directions).all()
        assert work.origins.flags.c_contiguous and work.origins.dtype == np.float64
        # Peers are asked the same, because float32 holds every number.
        assert (work.directions == work.directions.astype(np.float32)).all()
        assert (work.query, work.t_max) == (
            ("any_hit", 1.0) if work.name == "shadow" else ("closest_hit", np.inf)
        )


@pytest.mark.parametrize("name, same", [("primary tiled", "primary"),
                                        ("diffuse shuffled", "diffuse")])  # fmt: skip
def test_the_same_rays_in_another_order(works: dict[str, Workload], name: str, same: str) -> None:
    rows = [np.hstack([works[n].origins, works[n].directions]) for n in (name, same)]
    assert not np.array_equal(*rows)
    assert np.array_equal(*(row[np.lexsort(row.T)] for row in rows))


def test_tiles() -> None:
    assert tiles(8, 4)[:20].tolist() == [
        *(0, 1, 2, 3), *(8, 9, 10, 11), *(16, 17, 18, 19), *(24, 25, 26, 27), *(4, 5, 6, 7)
    ]  # fmt: skip


def test_bounces_leave_the_surface(tree: bvh.BVH, works: dict[str, Workload]) -> None:
    # A closed surface seen from outside: no segment to the lamp starts below it.
    work = works["diffuse"]
    hits = tree.closest_hit(works["primary"].origins, works["primary"].directions)
    assert len(work) == np.count_nonzero(hits.mask)
    out = Workload("out", "closest_hit", work.origins, -works["primary"].directions[hits.mask])
    back = tree.closest_hit(out.origins, out.directions)
    # The way back to the camera is free, but for grazing rays.
    assert np.mean(back.mask) < 0.01


def test_the_inner_camera_sees_walls() -> None:
    vertices, faces = interior(1.0)
    hall = bvh.BVH.from_triangles(vertices, faces)
    work = next(workloads(hall, SIDE, inside=True))
    assert np.all((work.origins > hall.bounds[0]) & (work.origins < hall.bounds[1]))
    # Some bays of the vault and the round windows are open.
    assert hall.any_hit(work.origins, work.directions).mean() > 0.95


def test_subdivision_keeps_the_surface(tree: bvh.BVH) -> None:
    vertices, faces = scenes.subdivided(tree.vertices, tree.faces)
    assert len(faces) == 4 * len(tree)
    # Closed: V - E + F is 2, and each edge has two sides.
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, sides = np.unique(edges, axis=0, return_counts=True)
    assert set(sides) == {2} and len(vertices) - len(sides) + len(faces) == 2
    assert (vertices == vertices.astype(np.float32)).all()
    area = [np.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]])
            for v, f in ((tree.vertices, tree.faces), (vertices, faces))]  # fmt: skip
    assert np.allclose(area[1].reshape(-1, 4, 3).sum(axis=1), area[0], atol=1e-6)


def test_scenes_by_name() -> None:
    scene = scenes.load("organic-4@1000")
    assert (scene.name, len(scene.faces)) == ("organic-4@1000", 1280)
    assert (scene.vertices == scene.vertices.astype(np.float32)).all() and not scene.inside
    assert scenes.load("interior").inside
    with pytest.raises(SystemExit, match="no mesh 'nothing'"):
        scenes.load("nothing")


def test_validation_finds_a_wrong_answer(tree: bvh.BVH, works: dict[str, Workload]) -> None:
    work = works["random"]
    validation.against_brute_force(tree, work)

    class Wrong:
        vertices, faces, any_hit = tree.vertices, tree.faces, tree.any_hit

        def __len__(self) -> int:
            return len(tree)

        def closest_hit(self, *args: Any, **kwargs: Any) -> bvh.Hits:
            hits = tree.closest_hit(*args, **kwargs)
            return replace(hits, t=np.nextafter(hits.t, 0))

    wrong: Any = Wrong()
    with pytest.raises(SystemExit, match="wrong answer"):
        validation.against_brute_force(wrong, work)


def test_agreement_counts_rays(tree: bvh.BVH, works: dict[str, Workload]) -> None:
    work = works["random"]
    query = Ours(tree, 1).rays(work)
    right = query.values(query.call())
    assert right.t is not None and right.ids is not None
    assert validation.agreement(right, right, work, 2.0) == 1.0
    some = np.flatnonzero(right.hit)[:10]
    share = 1 - 10 / len(work)
    t, hit = right.t.copy(), right.hit.copy()
    t[some] += 0.01
    hit[some] = False
    for other in (right._replace(t=t), right._replace(hit=hit)):
        assert validation.agreement(right, other, work, 2.0) == pytest.approx(share)
    assert validation.agreement(Answer(right.hit), Answer(hit), work, 2.0) == pytest.approx(share)


def row(what: str, ours: float, theirs: float | None = None, **more: Any) -> dict[str, Any]:
    seconds = {"bvh": [ours] * 3} | ({} if theirs is None else {"Open3D": [theirs] * 3})
    return {"mesh": "m", "triangles": 9, "threads": 1, "what": what, "count": 1000,
            "seconds": seconds, "foreign": 0.0, **more}  # fmt: skip


def test_changes_over_three_percent_are_flagged() -> None:
    old = [row("primary", 1.0, 2.0), row("random", 1.0), row("shadow", 1.0), row("diffuse", 1.0)]
    new = [row("primary", 2.0, 4.0), row("random", 0.98), row("shadow", 1.1),
           row("diffuse", 9.0, foreign=0.5), row("single", 1.0)]  # fmt: skip
    found = {change.key[1]: change for change in compare.changes(old, new)}
    # What was disturbed, or is in one run only, is not compared.
    assert list(found) == ["primary", "random", "shadow"]
    # The whole machine was slower: the peer too.
    assert found["primary"].ratio == 1.0 and not found["primary"].flagged
    assert not found["random"].flagged and found["shadow"].flagged
    text = list(compare.lines(old, new))
    assert [line.split()[1] for line in text if "SLOWER" in line] == ["shadow"]


def test_tables_and_means() -> None:
    rows = [row("primary", 1.0, 2.0), row("random", 1.0, 0.5), row("single", 1.0, 1e4)]
    rows.append(row("all hits", 1.0))
    assert mean_ratio(rows, 1) == pytest.approx(1.0)
    assert mean_ratio([*rows, row("shadow", 1.0, 99.0, foreign=0.3)], 1) == 1.0
    assert means_of_workloads(rows, 1) == pytest.approx({"primary": 2.0, "random": 0.5})
    assert lowest_ratio(rows, 1)[0] == 0.5 and lowest_ratio(rows, 1)[1].endswith(", random")
    paper = io.StringIO()
    report.print_rows(rows, paper)
    lines = paper.getvalue().splitlines()
    assert any("2.00" in line and line.startswith("primary") for line in lines)
    ends = {line.split("  ")[0]: line.split()[-1] for line in lines if line.strip()}
    assert (ends["single"], ends["all hits"]) == ("000", "-") and "10\xa0000" in paper.getvalue()
    assert np.isnan(mean_ratio([row("primary", 1.0)], 1))
    assert timing.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


def test_others_on_our_cpus() -> None:
    cpus = len(timing.os.sched_getaffinity(0)) if hasattr(timing.os, "sched_getaffinity") else 1
    if timing.clocks() is None:
        pytest.skip("this system does not tell")
    share = timing.foreign_share((0.0, 0.0, 0.0), (1.0, 0.5, 0.5 + 0.5 * cpus))
    assert share == pytest.approx(0.5)
    assert timing.foreign_share((0.0, 0.0, 0.0), (0.01, 0.0, 0.01)) is None


def test_charts_of_rates_and_of_sizes() -> None:
    pytest.importorskip("matplotlib")
    rows = [row(what, 1.0, 2.0) for what in BATCHES]
    lost = {"what": "leaks", "mesh": "s", "threads": 1, "count": 5, "lost": {"bvh": 0}}
    (axis,) = chart.rates({"rows": [*rows, lost]}, "m", 1).axes
    assert len(axis.patches) == 2 * len(BATCHES)
    assert "0 of 5 rays lost" in axis.get_xlabel()
    assert "camera rays" in axis.get_yticklabels()[0].get_text()
    busy = chart.rates({"rows": [row("primary", 1.0, foreign=0.5)]}, "m", 1)
    assert "primary !" in busy.axes[0].get_yticklabels()[0].get_text()
    assert "other processes" in busy.get_supxlabel()
    with pytest.raises(SystemExit, match="no batch of rays"):
        chart.rates({"rows": [row("points", 1.0)]}, "m", 1)
    sizes = [row("primary", seconds, triangles=n) for n, seconds in ((10**4, 1.0), (10**6, 1.4))]
    (axis,) = chart.scaling({"rows": sizes}).axes
    assert np.array_equal(axis.lines[0].get_xdata(), [1e4, 1e6])
    assert growth([(1e4, 1.0), (1e6, 1.4)]) == (1.4, 1.5)


def test_chart_of_cores() -> None:
    """A line is of virtual cores, from one core on; its dots are of real threads."""
    pytest.importorskip("matplotlib")
    parts = {"1 core, ms": 3.0, "2 virtual": 1.9, "16 virtual": 12.0, "64 virtual": 30.0}
    rows = [
        {"mesh": "m", "what": what, "parts": {**parts, "2 threads": 1.8}}
        for what in ("camera, 512^2", "random, 512^2", "random, 100^2", "scene, camera", "refit")
    ]
    (axis,) = chart.cores({"rows": rows}).axes
    assert [len(line.get_xdata()) for line in axis.lines] == [2, *[3, 1] * 3]
    assert axis.lines[1].get_ydata().tolist() == [1.0, 1.9, 12.0]
    assert axis.lines[2].get_xydata().tolist() == [[2.0, 1.8]]
    with pytest.raises(SystemExit, match="--task cores"):
        chart.cores({"rows": [row("primary", 1.0)]})


@pytest.mark.parametrize("dark", [False, True])
def test_charts_have_no_background(tmp_path: Path, dark: bool) -> None:
    """Without peers a chart is that of rates; on a dark page its text is light."""
    Image = pytest.importorskip("PIL.Image")
    pytest.importorskip("matplotlib")
    chart.write({"rows": [row(what, 1e-4) for what in BATCHES]}, tmp_path / "a.png", dark=dark)
    with Image.open(tmp_path / "a.png") as image:
        pixels = np.asarray(image.convert("RGBA")).astype(int)
    assert pixels[0, -1, 3] == 0
    words = pixels[(pixels[..., 3] == 255) & (np.ptp(pixels[..., :3], axis=2) < 40)]
    assert len(words) > 100 and (words[:, :3].min() > 50) == dark


def test_the_published_chart_is_that_of_the_published_figures() -> None:
    """`benchmarks/rates.svg` and its dark twin have the rates and the losses of `rates.json`."""
    rows = json.loads((ROOT / "rates.json").read_text())["rows"]
    lost = next(row for row in rows if "lost" in row)
    for name in ("rates.svg", "rates-dark.svg"):
        text = [*ElementTree.parse(ROOT / name).getroot().itertext()]
        for each in rows:
            if each["what"] in BATCHES:
                assert all(f"{1e-6 / seconds:.1f}" in text for seconds in times(each).values())
        count = grouped(lost["count"])
        assert any(f"{lost['lost']['bvh']} of {count} rays lost by bvh" in line for line in text)


def test_the_published_chart_of_cores_shows_its_queries() -> None:
    """`benchmarks/cores.svg` and its dark twin name the queries and the machine of `cores.json`."""
    figures = json.loads((ROOT / "cores.json").read_text())
    assert {"random, 1024^2", "contains"} <= {row["what"] for row in figures["rows"]}
    for name in ("cores.svg", "cores-dark.svg"):
        text = " ".join(ElementTree.parse(ROOT / name).getroot().itertext())
        assert figures["processor"] in text
        assert all(label in text for label in chart.SCALED.values())


def test_verdicts() -> None:
    """A run ends with a sentence, also without peers, and where others were busy."""
    assert report.verdict([row("primary", 1.0, 2.0)]).startswith("bvh casts rays 2.0 times as fast")
    alone = report.verdict([row("primary", 1e-4, unit="ray")])
    assert "10 M primary" in alone and "No peer was measured" in alone
    assert "Measure again" in report.verdict([row("primary", 1.0, 2.0, foreign=0.5)])
    paper = io.StringIO()
    report.print_rows([row("primary", 1.0, 2.0, foreign=0.5)], paper)
    text = paper.getvalue()
    assert "primary!" not in text and "all are unreliable" in text and "50 % of the CPUs" in text


def test_no_measurement_is_too_short_to_judge() -> None:
    seconds, foreign = timing.undisturbed({"nothing": lambda: None}, 1, attempts=1)
    assert len(seconds["nothing"]) > 1
    if timing.clocks() is not None:
        assert foreign is not None


def test_the_sculpture_has_the_surface_of_organic() -> None:
    """With as many vertices and faces, closed, without overlaps, and with flatter edges."""
    angles = []
    for name in ("organic-16", "sculpture-16"):
        found = scenes.load(name)
        mesh = trimesh.Trimesh(found.vertices, found.faces, process=False)
        assert mesh.is_watertight and mesh.is_winding_consistent and len(found.faces) == 5120
        assert len(bvh.BVH.from_mesh(mesh).self_overlaps()) == 0
        angles.append(float(mesh.face_adjacency_angles.mean()))
    assert angles[1] < 0.9 * angles[0]
