"""The command line with --scheduler: files and pictures are those of this process."""

from __future__ import annotations

import functools
import sys
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trimesh
from trimesh import Trimesh

from meshes.sphere import geodesic_sphere
from tests.cases.partitions import parts_of
from tests.commands import Run

pytest.importorskip("typer")
pytest.importorskip("rich")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def address(cluster: Any) -> str:
    """Return the address of a scheduler with two worker processes on the loopback."""
    return cluster.scheduler.address


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several tasks of a small picture."""
    from bvh.distributed import clusters
    from bvh.pictures import rendering

    monkeypatch.setattr(clusters, "FEWEST", 100)
    monkeypatch.setattr(clusters, "BANDS", 2)
    monkeypatch.setattr(rendering, "LIGHT_RAYS", 4000)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return a mesh, a saved tree, a scene, and a folder of parts."""
    vertices, faces = geodesic_sphere(6)
    ball = Trimesh(vertices, faces, process=False)
    ball.export(tmp_path / "ball.ply")
    scene = trimesh.Scene([ball, ball.copy().apply_translation([2.0, 0.0, 0.0])])
    scene.export(tmp_path / "two.glb")
    parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    return ["ball.ply", "ball.bvh", "two.glb", "parts"]


def test_files_are_those_of_this_process(
    run: Run, files: list[str], address: str, rng: np.random.Generator
) -> None:
    """Of rays of a file and of a camera; of shades with and without light rays, and numbers."""
    rays = rng.normal(size=(700, 8))
    rays[:, :3] *= 0.3
    rays[:, 6:] = np.sort(rays[:, 6:] * 3, axis=1)
    np.save("rays.npy", rays)
    np.save("none.npy", rays[:0])
    assert run("build", "ball.ply", "-o", "ball.bvh")[0] == 0
    scheduler = ("--scheduler", address)
    lines = [
        ("cast", ".csv", "--rays", "rays.npy"),
        ("cast", ".npz", "--rays", "none.npy"),
        ("cast", ".csv", "--size", "40x30"),
        ("render", ".png", "--size", "40x30", "--shade", "clay", "--light-rays", "4"),
        ("render", ".png", "--size", "40x30", "--shade", "material"),
        ("render", ".png", "--size", "400x130", "--shade", "cost", "--samples", "1"),
        ("render", ".npy", "--size", "40x30", "--shade", "id"),
    ]
    for command, ending, *options in lines:
        for name in files:
            # Of a tree alone: parts have no costs, and one is enough.
            if name != "ball.ply" and "cost" in options:
                continue
            told = run(command, name, "-o", f"here{ending}", *options)
            code, out, err = run(command, name, "-o", f"there{ending}", *options, *scheduler)
            assert (code, err.strip()) == (0, ""), (command, name, options, err)
            here, there = Path(f"here{ending}"), Path(f"there{ending}")
            assert out.split(" in ")[0] == told[1].split(" in ")[0].replace(here.name, there.name)
            if ending == ".npz":
                with np.load(here) as wanted, np.load(there) as found:
                    assert list(wanted) == list(found)
                    for column in wanted:
                        assert wanted[column].dtype == found[column].dtype
                        np.testing.assert_array_equal(wanted[column], found[column])
            else:
                assert here.read_bytes() == there.read_bytes(), (command, name, options)
            here.unlink()
            there.unlink()


def test_nothing_but_what_is_printed_is_fetched(
    run: Run, files: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a file for hits, the line is the same."""
    from bvh.distributed import clusters

    np.save("away.npy", np.ones((300, 6)) * 9.0)
    np.save("none.npy", np.ones((0, 6)))
    monkeypatch.delattr(clusters, "_received")
    for name in ("ball.ply", "two.glb", "parts"):
        for given in (("--size", "40x30"), ("--rays", "away.npy"), ("--rays", "none.npy")):
            told = run("cast", name, *given)[1].split(" in ")[0]
            assert run("cast", name, *given, "--scheduler", address)[1].split(" in ")[0] == told


def test_rays_of_a_camera_do_not_cross_the_wire(
    run: Run, files: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the tree, or the place of the parts, is sent."""
    from bvh.camera.camera import Camera

    def refused(*_: Any) -> None:
        raise AssertionError("rays are made here")

    monkeypatch.setattr(Camera, "rays", refused)
    monkeypatch.setattr(Camera, "ray", refused)
    for name in ("ball.ply", "parts"):
        assert run("cast", name, "--size", "40x30", "--scheduler", address)[0] == 0
        line = ("render", name, "-o", "a.png", "--size", "40x30", "--shade", "clay")
        assert run(*line, "--scheduler", address)[0] == 0


@pytest.mark.parametrize("threads", [None, 3])
def test_threads_are_those_of_each_task(
    threads: int | None, run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what workers cast, and of the bands that they render; one without the option."""
    from bvh.distributed.out_of_core.parts import Parts
    from bvh.pictures import rendering
    from bvh.queries.hierarchy import BVH

    used: list[tuple[str, int]] = []

    def noted(name: str, function: Any, place: Any) -> Any:
        @functools.wraps(function)
        def call(*given: Any, **options: Any) -> Any:
            # Rays of the command's own thread are not of a task.
            if threading.current_thread() is not threading.main_thread():
                used.append((name, options["threads"] if place is None else given[place]))
            return function(*given, **options)

        return call

    given = () if threads is None else ("--threads", threads)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        here = (*given, "--scheduler", cluster.scheduler_address, "--size", "40x30")
        for kind in (BVH, Parts):
            monkeypatch.setattr(kind, "closest_hit", noted("cast", kind.closest_hit, None))
        monkeypatch.setattr(rendering, "share", noted("render", rendering.share, 3))
        np.save("rays.npy", np.ones((9, 6)))
        for line in ("cast ball.ply", "cast parts", "cast parts --rays rays.npy"):
            assert run(*line.split(), *here)[::2] == (0, ""), line
            # What a query of parts asks of each tree is the same.
            assert used and set(used) == {("cast", threads or 1)}, line
            used.clear()
        # Each band is cast by one thread.
        assert run("render", "ball.ply", "-o", "a.png", *here)[0] == 0
        assert set(used) == {("render", threads or 1), ("cast", 1)}
        used.clear()
        assert run("render", "parts", "-o", "a.png", "--memory", "50MB", *here)[0] == 0
        assert set(used) == {("render", threads or 1), ("cast", threads or 1), ("cast", 1)}


def test_memory_of_parts(
    run: Run, files: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given reaches the parts, here and there, and changes no answer; for parts alone."""
    from bvh.distributed.out_of_core.parts import Parts

    create, asked = Parts.__init__, []

    def init(self: Parts, place: Any, **options: Any) -> None:
        asked.append(options)
        create(self, place, **options)

    monkeypatch.setattr(Parts, "__init__", init)
    for more in ((), ("--scheduler", address, "--threads", 2)):
        for line in ("cast parts -o a.csv", "render parts -o a.npy --shade id"):
            code, _, err = run(*line.split(), "--size", "40x30", "--memory", "1MB", *more)
            assert (code, err.strip()) == (0, ""), line
    assert asked == [{"memory": "1MB"}] * 4
    assert run("cast", "parts", "-o", "b.csv", "--size", "40x30")[0] == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    for line in ("cast ball.ply --memory 1GB", "render two.glb -o a.png --memory 1GB"):
        code, out, err = run(*line.split())
        assert (code, out) == (2, "") and "--memory is for parts" in err
    assert "memory" in run("cast", "parts", "--memory", "much")[2]
    for command in ("cast", "render"):
        told = " ".join(run(command, "--help")[1].replace("│", " ").split())
        assert "With --scheduler" in told and "in each process" in told


def test_errors_of_workers(run: Run, files: list[str], address: str, tmp_path: Path) -> None:
    """A part that is missing is named in one line, as without a cluster."""
    (tmp_path / "parts" / "00001.bvh").unlink()
    for line in ("cast parts --size 40x30", "render parts -o x.png --size 40x30 --shade ao"):
        code, out, err = run(*line.split(), "--scheduler", address)
        assert (code, out) == (2, "") and "part 1 (00001.bvh) is missing" in err
        assert len(err.strip().split("\n")) == 1 and not Path("x.png").exists()


@pytest.mark.parametrize("kind", ["killed", "cancelled", "no such module"])
def test_clusters_that_fail(
    kind: str, run: Run, files: list[str], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told in one line, with the address."""
    error: Exception = RuntimeError("Error during deserialization")
    error.__cause__ = ModuleNotFoundError("No module named 'bvh'")
    if kind == "killed":
        error = distributed.KilledWorker("task", SimpleNamespace(address="tcp://a:1"), 3)
    elif kind == "cancelled":
        error = CancelledError("scheduler-connection-lost")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("bvh.apps.cli.cli.cast_on", fail)
    code, out, err = run("cast", "ball.ply", "--scheduler", address)
    assert (code, out) == (2, "") and len(err.strip().split("\n")) == 1
    assert f"{address} failed: " in err
    assert kind != "no such module" or "No module named 'bvh'" in err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("tcp://127.0.0.1:1", "nothing answers at tcp://127.0.0.1:1"),
        ("nowhere", "--scheduler: missing port"),
        ("http://127.0.0.1:1", "--scheduler: unknown address scheme"),
    ],
)
def test_no_scheduler(
    given: str, words: str, run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names the address, before anything is read."""
    monkeypatch.setattr("bvh.distributed.clusters.PATIENCE_SECONDS", 0.3)
    for line in ("cast no.ply", "render no.ply -o x.png"):
        code, out, err = run(*line.split(), "--scheduler", given)
        assert (code, out) == (2, "") and words in err and len(err.strip().split("\n")) == 1


def test_no_workers(run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bvh.distributed.clusters.PATIENCE_SECONDS", 2.0)
    with distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as cluster:
        code, _, err = run("cast", "ball.ply", "--scheduler", cluster.scheduler_address)
    assert code == 2 and "has no workers" in err


def test_without_distributed(run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named; without --scheduler it is not needed."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, _, err = run("cast", "parts", "--scheduler", "tcp://127.0.0.1:1")
    assert code == 2
    assert err == 'bvh: --scheduler needs distributed: pip install "raybvh[dask]"\n'
    assert run("cast", "parts", "--size", "8x8")[0] == 0
