"""Handles of trees: mapped files by path and checksum, trees once a process, snapshots, tokens."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import bvh
from bvh.distributed import handles
from bvh.distributed.handles import handle_of
from bvh.queries import tree_base, tree_queries
from tests.cases.families import sphere
from tests.cases.handles import RAYS, checksum_of, kind_of, lazily, there, trees_of

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
dumps = pytest.importorskip("cloudpickle").dumps
tokenize = pytest.importorskip("dask.base").tokenize


@pytest.fixture(autouse=True)
def nothing_open() -> None:
    handles.mapped_content.cache_clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    bvh.BVH.from_triangles(*sphere(2)).save(tmp_path / "ball.bvh")
    return tmp_path / "ball.bvh"


def test_a_mapped_tree_travels_as_path_and_checksum(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = bvh.load(path, mmap=True)
    handle = handle_of(tree)
    assert kind_of(handle) == "mapped tree"
    assert handle.open() is handle.open()
    assert len(pickle.dumps(handle)) < 300
    opened: list[str] = []
    load = handles.loaded_from
    monkeypatch.setattr(
        handles, "loaded_from", lambda *a, **k: opened.append(a[0]) or load(*a, **k)
    )
    first, second = there(handle).open(), there(handle).open()
    assert first is second and opened == [str(path)]
    np.testing.assert_array_equal(first.closest_hit(*RAYS).t, tree.closest_hit(*RAYS).t)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system lists no open files")
def test_files_do_not_stay_open_for_ever(path: Path) -> None:
    """Of those that no graph needs any more, some stay mapped."""
    tree = bvh.load(path, mmap=True)
    before, checksum = len(os.listdir("/dev/fd")), checksum_of(handle_of(tree))
    for k in range(handles.MOST_MAPS + 20):
        copy = shutil.copy(path, path.with_name(f"{k}.bvh"))
        handles.mapped_content("tree", str(copy), checksum, 0)
    assert len(os.listdir("/dev/fd")) - before <= handles.MOST_MAPS


def test_a_relative_path_is_meant_as_it_was_mapped(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    tree = bvh.load(path.name, mmap=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert there(handle_of(tree)).open().closest_hit(*RAYS).t[0] == tree.closest_hit(*RAYS).t[0]


def test_a_file_that_is_missing_or_another_one(path: Path) -> None:
    """The error names the file and both checksums; it comes from any scheduler as it is."""
    handle = handle_of(bvh.load(path, mmap=True))
    assert kind_of(handle) == "mapped tree"
    bvh.BVH.from_triangles(*sphere(1)).save(path)
    other = handle_of(bvh.load(path, mmap=True))
    was, now = map(checksum_of, (handle, other))
    assert kind_of(other) == "mapped tree" and was != now
    pattern = rf"mapped from .*ball\.bvh with checksum {was}; .*{now}"
    with pytest.raises(ValueError, match=pattern):
        there(handle).open()
    for content in (b"", b"short", bytes(2000)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"checksum {was}; the file here"):
            there(handle).open()
    path.unlink()
    with pytest.raises(ValueError, match=rf"no such file here: .*checksum {was}"):
        there(handle).open()


def test_a_damaged_file_is_found_at_the_first_query(path: Path) -> None:
    handle, content = handle_of(bvh.load(path, mmap=True)), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"ball\.bvh: is damaged"):
        there(handle).open().closest_hit(*RAYS)


def test_errors_of_workers(path: Path, cluster: Any) -> None:
    lazy = lazily(bvh.load(path, mmap=True))
    bvh.BVH.from_triangles(*sphere(1)).save(path)
    with cluster.as_current(), pytest.raises(ValueError, match=r"ball\.bvh with checksum .* has "):
        lazy.compute()


@pytest.fixture
def settled(cluster: Any) -> Iterator[Any]:
    """The cluster, whose workers keep the tasks that they were given first."""

    async def stop(dask_scheduler: Any) -> None:
        await dask_scheduler.extensions["stealing"].stop()

    async def start(dask_scheduler: Any) -> None:
        await dask_scheduler.extensions["stealing"].start()

    cluster.run_on_scheduler(stop)
    try:
        yield cluster
    finally:
        cluster.run_on_scheduler(start)


def test_a_tree_in_memory_is_sent_once_to_each_worker(settled: Any) -> None:
    # No other test's: names of tasks, by which transfers are counted, are of the content.
    vertices, faces = sphere(4)
    tree = bvh.BVH.from_triangles(vertices * 1.0625, faces)
    size = len(pickle.dumps(tree))
    lazy = lazily(tree)
    (name,) = {key for key in lazy.dask if str(key).startswith("bvh-")}

    def received(dask_worker: Any) -> int:
        return sum(name in log["keys"] for log in dask_worker.transfer_incoming_log)

    with settled.as_current():
        wanted = tree.closest_hit(*RAYS).t
        np.testing.assert_array_equal(lazy.compute(), wanted)
        # One gets it with its task, the other from that one.
        assert sorted(settled.run(received).values()) in ([0, 0], [0, 1])
    graph = dask.optimize(lazy)[0].dask
    sizes = [len(dumps(task)) for task in dict(graph).values()]
    assert len(sizes) > 4 and sum(bytes_of > size / 10 for bytes_of in sizes) == 1


def test_a_handle_is_unpickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever threads ask; whoever passes it on need not unpickle it."""
    tree = bvh.BVH.from_triangles(*sphere(2))
    made: list[int] = []
    set_state = tree_base.TreeBase.__setstate__
    monkeypatch.setattr(
        tree_base.TreeBase,
        "__setstate__",
        lambda self, state: made.append(1) or set_state(self, state),
    )
    here = handle_of(tree)
    made.clear()
    handle = there(there(there(here)))
    assert not made
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(handle.open())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len({id(tree) for tree in found}) == 1
    again = there(handle)
    np.testing.assert_array_equal(again.open().closest_hit(*RAYS).t, tree.closest_hit(*RAYS).t)


def test_a_scene_of_mapped_trees_and_others(path: Path) -> None:
    mapped, held = bvh.load(path, mmap=True), bvh.BVH.from_triangles(*sphere(4))
    scene = bvh.Scene()
    for k, tree in enumerate([mapped, held, mapped, held]):
        scene.add(
            tree, transform=[[1, 0, 0, 0.1 * k], [0, 1, 0, 0], [0, 0, 1, 0.05 * k], [0, 0, 0, 1]]
        )
    handle = handle_of(scene)
    assert kind_of(handle) == "scene"
    assert [kind_of(tree) for tree in trees_of(handle)] == ["mapped tree", "bytes"]
    # The tree in memory once, and nothing of the file.
    assert len(pickle.dumps(handle)) < len(pickle.dumps(held)) + 5000
    opened = there(handle)
    assert opened.open() is opened.open()
    found, wanted = opened.open().closest_hit(*RAYS), scene.closest_hit(*RAYS)
    np.testing.assert_array_equal(found.t, wanted.t)
    np.testing.assert_array_equal(found.instance_id, wanted.instance_id)
    shutil.move(path, path.with_name("away.bvh"))
    handles.mapped_content.cache_clear()
    with pytest.raises(ValueError, match=r"no such file here: .*ball\.bvh"):
        there(handle).open()


@pytest.mark.parametrize("kind", ["held", "mapped", "mapped and used"])
def test_a_graph_keeps_the_tree_that_it_was_made_of(kind: str, path: Path) -> None:
    """Also the graph of a mapped tree, which is in memory once it is moved."""
    tree = bvh.load(path, mmap=kind != "held")
    assert isinstance(tree, bvh.BVH)
    if kind == "mapped and used":
        tree.closest_hit(*RAYS)
    before, wanted = lazily(tree), bvh.load(path).closest_hit(*RAYS).t
    tree.refit(tree.vertices * 2.0)
    after = lazily(tree)
    assert kind_of(handle_of(tree)) == "bytes"
    moved = tree.closest_hit(*RAYS).t
    assert not np.array_equal(moved, wanted)
    for found, answer in zip(
        dask.compute(before, after, scheduler="sync"), (wanted, moved), strict=True
    ):
        np.testing.assert_array_equal(found, answer)
    np.testing.assert_array_equal(there(handle_of(tree)).open().closest_hit(*RAYS).t, moved)


def test_a_graph_keeps_the_scene_that_it_was_made_of() -> None:
    tree = bvh.BVH.from_triangles(*sphere(2))
    scene = bvh.Scene()
    number = scene.add(tree)
    answers, graphs = [], []
    for change in (
        lambda: None,
        lambda: scene.set_transform(number, np.diag([2.0, 2.0, 2.0, 1.0])),
        lambda: tree.refit(tree.vertices * 0.5),
        lambda: scene.add(tree, transform=np.diag([2.5, 2.5, 2.5, 1.0])),
        lambda: scene.remove(number),
    ):
        change()
        graphs.append(lazily(scene))
        answers.append(scene.closest_hit(*RAYS).t)
    assert len({graph.name for graph in graphs}) == len(graphs)
    found = dask.compute(*graphs, scheduler="sync")
    np.testing.assert_array_equal(np.array(found), np.array(answers))


def test_equal_content_has_equal_tokens(path: Path) -> None:
    vertices, faces = sphere(2)
    one, two = (bvh.BVH.from_triangles(vertices, faces) for _ in range(2))
    assert tokenize(one) == tokenize(two) == tokenize(there(one)) == tokenize(there(handle_of(one)))
    copied = path.with_name("copy.bvh")
    shutil.copy(path, copied)
    mapped = bvh.load(path, mmap=True)
    assert tokenize(handle_of(mapped)) == tokenize(handle_of(bvh.load(path, mmap=True)))
    others = [
        bvh.BVH.from_triangles(vertices, faces[::-1]),
        bvh.BVH.from_triangles(np.nextafter(vertices, 9.0), faces),
        bvh.BVH.from_triangles(-vertices, faces),
        bvh.BVH.from_boxes(vertices[:9], vertices[:9] + 1.0),
    ]
    assert len({tokenize(tree) for tree in (one, *others)}) == 5
    scenes = [bvh.Scene() for _ in range(3)]
    for scene, tree in zip(scenes, (one, two, others[0]), strict=True):
        scene.add(tree)
    assert tokenize(scenes[0]) == tokenize(scenes[1]) != tokenize(scenes[2])


def test_a_token_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = bvh.BVH.from_triangles(*sphere(2))
    read: list[int] = []
    digest = tree_queries.blake2b
    monkeypatch.setattr(
        tree_queries, "blake2b", lambda *a, **options: read.append(1) or digest(*a, **options)
    )
    for _ in range(3):
        tokenize(tree)
    # Vertices, faces, and all of it.
    assert len(read) == 3
    tree.refit(tree.vertices + 1.0)
    tokenize(tree)
    assert len(read) == 6


@numba.njit
def _disc(prim_id, origin, direction, t_min, t_max, radii):  # type: ignore[no-untyped-def]
    t = -origin[2] / direction[2]
    return (t if origin[0] ** 2 + origin[1] ** 2 <= radii[prim_id] ** 2 else np.inf), 0.0, 0.0


@numba.njit
def _nothing(prim_id, origin, direction, t_min, t_max, radii):  # type: ignore[no-untyped-def]
    return np.inf, 0.0, 0.0


def test_custom_primitives_with_the_same_boxes() -> None:
    """Their functions and data are what tells them apart."""
    box = [[-2, -2, 0]], [[2, 2, 0]]
    trees = [
        bvh.BVH.from_custom(*box, _disc, np.array([2.0])),
        bvh.BVH.from_custom(*box, _disc, np.array([0.1])),
        bvh.BVH.from_custom(*box, _nothing, np.array([2.0])),
    ]
    found = dask.compute(*[lazily(tree) for tree in trees], scheduler="sync")
    assert [hits[0] for hits in found] == [3.0, np.inf, np.inf]
    assert tokenize(trees[0]) == tokenize(trees[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    handle = there(handle_of(bvh.BVH.from_triangles(*sphere(1))))
    (begin, held), go_on = os.pipe(), threading.Event()

    def hold() -> None:
        with handles._guard.lock:
            os.write(held, b"1")
            go_on.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    os.read(begin, 1)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(handle.open()) else 1)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join()
    os.close(begin)
    os.close(held)
    assert status == 0
