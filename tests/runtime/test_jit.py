"""Compiled kernels: their cache on disk, their options, and `warmup`."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.caller_warnings import BVHWarning
from bvh.runtime.compiler import kernel_cache
from tests.children import PACKAGE, answer, fork, start

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")

# One small kernel, which needs a helper from another file.
PROBE = """
import json
import numpy as np
from bvh.runtime.compiler.kernel_cache import cache_directory
from bvh.tree.nodes import _local_boxes, local_boxes
{before}
boxes = local_boxes(np.zeros((1, 3)), np.ones((1, 3)), np.zeros((2, 3)))
[stats] = [s.compiled.stats for s in _local_boxes.specialisations]
print(json.dumps({{
    "upper": round(float(boxes[0, 3])), "folder": str(cache_directory()),
    "loaded": sum(stats.cache_hits.values()), "compiled": sum(stats.cache_misses.values()),
}}))
"""


def probe(package: Path = PACKAGE, before: str = "", **settings: Any) -> dict[str, Any]:
    """Run the small kernel."""
    return answer(fork(PROBE.format(before=before), package, **settings))


def files(folder: Path) -> dict[Path, int]:
    """Return all kernels below a folder with their times, but for what calls them, and notes."""
    found = (path for path in folder.rglob("*") if path.is_file())
    beside = "sources-", "helpers.", "bvh.runtime.calls."
    return {p: p.stat().st_mtime_ns for p in found if not p.name.startswith(beside)}


def test_kernels_are_stored_and_loaded(tmp_path: Path) -> None:
    """The second process compiles nothing and writes nothing; a damaged file is made again."""
    cache = tmp_path / "deep" / "cache"
    first = probe(BVH_CACHE_DIR=cache)
    assert (first["loaded"], first["compiled"], first["upper"]) == (0, 1, 1)
    stored = files(cache)
    assert [path.parent for path in stored] == [cache / kernel_cache.fingerprint()]
    # In a fresh interpreter, which hashes texts in another way.
    second = answer(start(PROBE.format(before=""), BVH_CACHE_DIR=cache))
    assert (second["loaded"], second["compiled"], second["upper"]) == (1, 0, 1)
    assert files(cache) == stored
    [kernel] = stored
    whole = kernel.read_bytes()
    kernel.write_bytes(whole[: len(whole) // 2])
    third = probe(BVH_CACHE_DIR=cache)
    assert (third["loaded"], third["compiled"], third["upper"]) == (0, 1, 1)
    assert list(files(cache)) == [kernel] and kernel.stat().st_size > len(whole) // 2


@pytest.mark.long
def test_processes_that_start_together(tmp_path: Path) -> None:
    """All of them compile or load, and leave one file and no scraps."""
    script = PROBE.format(before="")
    processes = [fork(script, BVH_CACHE_DIR=tmp_path / "cache") for _ in range(4)]
    answers = [answer(process) for process in processes]
    assert [one["upper"] for one in answers] == [1, 1, 1, 1]
    counts = [(one["compiled"], one["loaded"]) for one in answers]
    assert set(counts) <= {(0, 1), (1, 0)} and (1, 0) in counts
    [kernel] = files(tmp_path)
    assert kernel.name.startswith("bvh.tree.nodes.")


@pytest.mark.long
def test_without_a_cache(tmp_path: Path) -> None:
    """Switched off, nowhere to write, or a folder that vanishes: kernels stay in memory."""
    (tmp_path / "file").touch()
    home = {"HOME": tmp_path, "XDG_CACHE_HOME": None, "LOCALAPPDATA": tmp_path}
    assert probe(BVH_CACHE_DIR="off", **home)["folder"] == "None"
    assert list(files(tmp_path)) == [tmp_path / "file"]
    nowhere = tmp_path / "file" / "below"
    places = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "BVH_CACHE_DIR": nowhere}
    # A wanted folder that fails is told; here only what happens next matters.
    blocked = "import warnings; warnings.simplefilter('ignore')\n"
    blocked += f"import tempfile; tempfile.tempdir = {str(nowhere)!r}\n"
    one = answer(fork(blocked + PROBE.format(before=""), **places))
    assert (one["folder"], one["compiled"], one["upper"]) == ("None", 1, 1)
    vanish = "import shutil; shutil.rmtree(cache_directory()); cache_directory().touch()"
    one = probe(before=vanish, BVH_CACHE_DIR=tmp_path / "gone")
    assert (one["compiled"], one["upper"]) == (1, 1)


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Give the user's cache folder and the temporary folder places of their own."""
    for name in ("user", "temporary"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.delenv("BVH_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "file").touch()
    user = tmp_path / "user" / "raybvh" / kernel_cache.fingerprint()
    temporary = tmp_path / "temporary" / f"raybvh-{os.getuid()}" / kernel_cache.fingerprint()
    return {"user": user, "temporary": temporary, "nowhere": tmp_path / "file" / "below"}


def directory() -> Path | None:
    """Choose the folder anew."""
    folder = kernel_cache.cache_folder.__wrapped__()
    return None if folder is None else folder.path


@posix
def test_the_first_folder_that_serves(
    roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """BVH_CACHE_DIR, the user's cache folder, a temporary folder, none."""
    monkeypatch.setenv("BVH_CACHE_DIR", str(tmp_path / "wanted"))
    assert directory() == tmp_path / "wanted" / kernel_cache.fingerprint()
    for off in ("off", "OFF"):
        monkeypatch.setenv("BVH_CACHE_DIR", off)
        assert directory() is None
    monkeypatch.setenv("BVH_CACHE_DIR", "")
    assert directory() == roots["user"]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(roots["nowhere"]))
    assert directory() == roots["temporary"]
    monkeypatch.setattr(tempfile, "tempdir", str(roots["nowhere"]))
    assert directory() is None
    # Python finds no temporary folder, as in a container that is read-only.
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    assert directory() is None


@posix
def test_a_wanted_folder_that_does_not_serve(
    roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one is taken, and a warning says so."""
    monkeypatch.setenv("BVH_CACHE_DIR", str(roots["nowhere"]))
    with pytest.warns(BVHWarning, match=r"BVH_CACHE_DIR=.* cannot be used.*user") as told:
        assert directory() == roots["user"]
    assert told[0].filename == __file__


@posix
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o1777, 0o770])
@pytest.mark.parametrize("level", ["folder", "parent"])
def test_a_folder_that_others_can_fill_is_refused(
    level: str, mode: int, roots: dict[str, Path]
) -> None:
    """A cached kernel is code that will run."""
    assert directory() == roots["user"]
    (roots["user"] if level == "folder" else roots["user"].parent).chmod(mode)
    assert directory() == roots["temporary"]


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="needs root")
def test_a_folder_of_another_user_is_refused(
    roots: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder and the one above it must be ours or the system's."""
    for path in (roots["user"], roots["user"].parent):
        assert directory() == roots["user"]
        os.chown(path, 12345, -1)
        assert directory() == roots["temporary"]
        os.chown(path, 0, -1)


@posix
@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002, 0o000])
def test_new_folders_are_private(mask: int, roots: dict[str, Path]) -> None:
    """With any umask."""
    before = os.umask(mask)
    try:
        assert directory() == roots["user"]
    finally:
        os.umask(before)
    assert roots["user"].stat().st_mode & 0o777 == 0o700


def test_damaged_files_count_as_absent(tmp_path: Path) -> None:
    """Cut short at any place, changed in any place, or not ours at all."""
    store = kernel_cache.KernelFiles(KernelFolder(tmp_path), "kernel")
    assert store.load("key") is None
    store.save("key", {"code": b"abc" * 100})
    assert store.load("key") == {"code": b"abc" * 100}
    assert store.load("other key") is None
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    for length in (0, 1, 31, 32, 33, 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert store.load("key") is None
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert store.load("key") is None
    path.write_bytes(b"something else")
    assert store.load("key") is None
    store.save("key", 2)
    assert store.load("key") == 2
    path.unlink()
    path.mkdir()
    assert store.load("key") is None
    store.save("key", 3)
    assert list(tmp_path.iterdir()) == [path]


def age(folder: Path, days: float) -> Path:
    """Make a folder with a file, both last touched some days ago."""
    folder.mkdir()
    (folder / "kernel").write_bytes(b"code")
    for path in (folder / "kernel", folder):
        os.utime(path, (time.time() - days * 86400,) * 2)
    return folder


def test_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old versions go; the current one, fresh ones and whatever is not ours stay."""
    current = age(tmp_path / kernel_cache.fingerprint(), 400)
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda: current)
    stay = [
        current,
        age(tmp_path / ("a" * 20), 29),
        age(tmp_path / "notes", 400),
        # As long as a fingerprint, but none.
        age(tmp_path / "my_important_results", 400),
    ]
    used = age(tmp_path / ("b" * 20), 400)
    (used / "new kernel").touch()
    (tmp_path / ("c" * 20)).touch()
    gone = [age(tmp_path / ("d" * 20), 31), age(tmp_path / "0123456789abcdef0123", 4000)]
    assert sorted(kernel_cache.prune_cache()) == sorted(gone)
    assert all((folder / "kernel").is_file() for folder in (*stay, used))
    assert not any(folder.exists() for folder in gone)
    assert kernel_cache.prune_cache() == []
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda: None)
    assert kernel_cache.prune_cache() == []


def test_pruning_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old folder that cannot be removed is no reason to fail."""
    current = age(tmp_path / kernel_cache.fingerprint(), 0)
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda: current)
    (age(tmp_path / ("a" * 20), 400) / "folder").mkdir()
    os.utime(tmp_path / ("a" * 20), (0, 0))
    os.utime(tmp_path / ("a" * 20) / "folder", (0, 0))
    other = age(tmp_path / ("b" * 20), 400)
    assert kernel_cache.prune_cache() == [other] and not other.exists()
    assert (tmp_path / ("a" * 20) / "folder").is_dir() and (current / "kernel").is_file()


WARM = """
import json, sys, warnings
import numba
import numpy as np
import bvh
# Some of the meshes below are open.
warnings.simplefilter("ignore", bvh.BVHWarning)
from bvh.runtime.calls.entries import Entry
parts = []
bvh.warmup(lambda *call: parts.append(call))

def signatures():
    return {
        # By where it is defined, as modules that are imported late import it, too.
        f"{value.py_func.__module__}.{value.py_func.__name__}": len(value.specialisations)
        for name, module in list(sys.modules.items()) if name.split(".")[0] == "bvh"
        for key, value in vars(module).items()
        # Not what is compiled for a user's function.
        if isinstance(value, Entry) and key != "_visit"
    }

warm = signatures()
rng = np.random.default_rng(0)
lower = rng.random((9000, 3))
corners = lower, lower + 0.01
small = lower[:, None] + 0.01 * np.eye(3)
trees = [
    bvh.BVH.from_triangles(small.reshape(-1, 3), np.arange(27000).reshape(-1, 3), threads=2),
    bvh.BVH.from_triangles([], []), bvh.BVH.from_boxes(*corners, threads=2),
    bvh.BVH.from_obbs(*corners, np.tile(np.eye(4), (9000, 1, 1))),
]
for tree in trees:
    one = ([0, 0, 0], [1, 1, 1]), ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    for rays in ((lower, lower - 0.5), (lower[0], lower), *one):
        tree.closest_hit(*rays)
        tree.any_hit(*rays, t_min=-1, t_max=np.ones(9000) if np.ndim(rays[1]) > 1 else 2)
MORE
print(json.dumps({"parts": parts, "cold": [k for k in warm if not warm[k]],
                  "compiled": [k for k, n in signatures().items() if n > warm.get(k, 0)]}))
"""


@pytest.mark.long
def test_warmup_compiles_what_building_and_querying_need() -> None:
    """It names its parts, and afterwards nothing is compiled."""
    result = answer(fork(WARM.replace("MORE", "")))
    total = len(result["parts"]) - 1
    assert total >= 1 and all(name for name, *_ in result["parts"][:-1])
    assert [call[1:] for call in result["parts"]] == [[i, total] for i in range(total + 1)]
    assert result["compiled"] == []


@pytest.mark.long
def test_warmup_compiles_everything() -> None:
    """No kernel that Python calls is left out, nor any way of calling it."""
    more = """
for tree in trees:
    tree.validate()
@numba.njit
def accept(ray_id, prim_id, t, u, v, data):
    return prim_id != data
@numba.njit
def accept_in_scene(ray_id, instance_id, prim_id, t, u, v, data):
    return prim_id != data
@numba.njit
def slab(prim_id, origin, direction, t_min, t_max, data):
    return (data - origin[0]) / direction[0], 0.0, 0.0
own = bvh.BVH.from_custom(*corners, slab, 0.5)
for ask in (own.closest_hit, own.any_hit, own.all_hits, own.count_hits):
    ask(lower, lower - 0.5)
own.closest_hit([0, 0, 0], [1, 1, 1]), own.caster()(0, 0, 0, 1, 1, 1)
for ask in (trees[0].closest_hit, trees[0].any_hit, trees[0].all_hits, trees[0].count_hits):
    ask(lower, lower - 0.5, filter=accept, data=1)
o, d = [0, 0, 0], [1, 1, 1]
bvh.ray_plane(o, d, d, 1.0), bvh.ray_sphere(o, d, d, 1.0), bvh.ray_box(o, d, o, d)
bvh.ray_triangle(o, d, o, d, [1, 0, 0]), bvh.ray_obb(o, d, o, d, np.eye(4))
for tree in trees[:2]:
    tree.all_hits(lower, lower - 0.5), tree.all_hits(o, d, max_hits=2, edges="once")
    tree.count_hits(lower, lower - 0.5), tree.closest_hit(o, d, counters=True)
    tree.closest_point(lower, 1), tree.closest_point(lower, k=2), tree.distance(o)
    tree.contains(lower), tree.signed_distance(lower), tree.winding_number(lower)
    tree.overlap_box(lower, lower), tree.overlap_sphere(lower, 0.1), tree.overlap_frustum([[*d, 1]])
    tree.overlap_tree(trees[0], np.eye(4)), tree.self_overlaps()
    tree.distance_to(trees[0]), tree.distance_to(trees[0], [np.eye(4)] * 2), tree.distance_to(tree)
scene, turned = bvh.Scene(), np.diag([1.0, -2.0, 1.0, 1.0])
scene.add(trees[0]), scene.add(trees[0], turned), scene.set_transform(0, np.eye(4))
camera = bvh.Camera.look_at([0, 0, 9], [0, 0, 0], [0, 1, 0])
scene.closest_hit(lower, lower - 0.5), scene.any_hit(lower, lower - 0.5, mask=[1] * 9000)
scene.all_hits(lower, lower - 0.5), scene.all_hits(o, d, max_hits=2), scene.count_hits(o, d)
for ask in (scene.closest_hit, scene.any_hit, scene.all_hits, scene.count_hits):
    ask(lower, lower - 0.5, filter=accept_in_scene, data=1)
scene.closest_hit(o, d, counters=True), scene.caster()(*o, *d), scene.winding_number(o)
scene.closest_point(lower), scene.closest_point(lower, k=2), scene.signed_distance(lower)
scene.contains(lower), scene.overlap_box(lower, lower), scene.overlap_sphere(lower, 0.1)
scene.overlap_frustum([[*d, 1]]), scene.overlap_tree(trees[0], turned), scene.self_overlaps()
scene.collisions(), scene.clearances(ignore=[(0, 0)])
scene.pick(camera, 1, 2), scene.pick(camera, 400, 300, radius=5), scene.pick_all(camera, 9, 9)
scene.pick_rect(camera, 300, 200, 500, 400, mode="inside", visible_only=True)
scene.pick_lasso(camera, [[0, 0], [500, 0], [0, 500]], what="vertices")
scene.set_transforms([0, 1], [turned, turned]), scene.flattened(), scene.closest_hit(o, d)
"""
    result = answer(fork(WARM.replace("MORE", more)))
    assert (result["cold"], result["compiled"]) == ([], [])
