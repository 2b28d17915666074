"""Saved trees: they answer bit for bit, mapped or read, and are written in one step."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH, Scene
from bvh.io import file_formats
from bvh.io.container import ALIGNMENT, HEADER_SIZE
from bvh.io.file_formats import entries_of, unpacked
from bvh.runtime.simd import WIDTH
from bvh.scene.files import loading
from bvh.traversal.rays.closest_hit import closest_hits
from bvh.tree.build import QUALITIES
from tests.cases.saved_trees import KINDS, Parts, tree_of
from tests.cases.soups import FLAT, rays_at, same, soup
from tests.children import answer, fork

Rng = np.random.Generator

TREES: dict[str, Callable[[Rng], BVH]] = {
    **{f"{kind} {quality}": lambda rng, k=kind, q=quality: tree_of(k, rng, 500, q)
       for kind in KINDS for quality in QUALITIES},
    "no triangles": lambda rng: BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int)),
    "vertices alone": lambda rng: BVH.from_triangles(rng.random((7, 3)), np.empty((0, 3), int)),
    "nothing to hit": lambda rng: BVH.from_triangles(np.full((3, 3), np.nan), [[0, 1, 2]]),
    "one triangle": lambda rng: BVH.from_triangles(FLAT, [[0, 1, 2]]),
    "a point": lambda rng: BVH.from_triangles(np.zeros((1, 3)), [[0, 0, 0]]),
    "copies": lambda rng: BVH.from_triangles(FLAT, np.tile([0, 1, 2], (300, 1))),
    "largest": lambda rng: BVH.from_triangles((soup(rng, 50)[0] - 0.5) * 1e308, soup(rng, 50)[1]),
    "smallest": lambda rng: BVH.from_triangles(soup(rng, 50)[0] * 1e-300, soup(rng, 50)[1]),
    "far": lambda rng: BVH.from_triangles(soup(rng, 50)[0] + 1e12, soup(rng, 50)[1]),
    "no boxes": lambda rng: BVH.from_boxes(np.empty((0, 3)), np.empty((0, 3))),
    "one box": lambda rng: BVH.from_boxes([[-1.0, -0.0, 0]], [[1, 0.0, 1]]),
    "no obbs": lambda rng: BVH.from_obbs(np.empty((0, 3)), np.empty((0, 3)), np.empty((0, 4, 4))),
    "one obb": lambda rng: BVH.from_obbs([[0, 0, 0]], [[1, 1, 1]], np.diag([1, 2, 4, 1.0])[None]),
}  # fmt: skip


def rays_for(tree: BVH, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return rays at a tree, or anywhere where there is none."""
    with np.errstate(all="ignore"):
        if np.isfinite(np.ptp(tree.bounds)):
            return rays_at(tree, rng)
    return rng.normal(size=(400, 3)), rng.normal(size=(400, 3))


@pytest.mark.parametrize("name", TREES)
def test_a_loaded_tree_answers_bit_for_bit(name: str, tmp_path: Path, rng: Rng) -> None:
    """Read and mapped, checked and trusted; nothing is compiled for it."""
    tree, path = TREES[name](rng), tmp_path / "tree.bvh"
    rays = rays_for(tree, rng)
    wanted, wanted_any = tree.closest_hit(*rays), tree.any_hit(*rays)
    compiled = len(closest_hits.specialisations)
    tree.save(path)
    before = path.read_bytes()
    for mmap in (False, True):
        for options in ({}, {"verify": False}, {"audit": True}, {"threads": 1}):
            other = bvh.load(path, mmap=mmap, **options)
            assert np.array_equal(other.bounds, tree.bounds, equal_nan=True)
            assert same(other.closest_hit(*rays), wanted)
            assert np.array_equal(other.any_hit(*rays), wanted_any)
            one = other.closest_hit(rays[0][0], rays[1][0])
            assert np.array_equal([one.t, one.prim_id], [wanted.t[0], wanted.prim_id[0]])
            assert np.array_equal(other.caster()(*rays[0][1], *rays[1][1])[0], wanted.t[1])
            other.validate()
            assert (repr(other), other.stats()) == (repr(tree), tree.stats())
            nodes, groups, primitives, frame, bits = other.arrays
            for array in (*nodes, groups, *primitives, frame, bits, other.bounds):
                assert type(array) is np.ndarray and not array.flags.writeable
            for array in (nodes.data, groups):
                assert array.ctypes.data % ALIGNMENT == 0
    assert len(closest_hits.specialisations) == compiled
    # What is saved again is the same file, over the one that is mapped, too.
    other.save(path)
    assert path.read_bytes() == before
    assert same(other.closest_hit(*rays), wanted)


def test_a_refitted_tree_is_saved(tmp_path: Path, rng: Rng) -> None:
    """Its frame and boxes are those of the moved vertices; lanes may have lost their triangles."""
    from tests.queries.test_refit import moved

    for quality in QUALITIES:
        tree = tree_of("triangles", rng, 500, quality)
        points = tree.vertices + rng.normal(size=tree.vertices.shape)
        points[300:330] = np.nan
        for target in (points, tree.vertices * np.nan):
            other = moved(tree, target)
            other.save(tmp_path / "moved.bvh")
            rays = rays_for(other, rng)
            loaded = bvh.load(tmp_path / "moved.bvh", audit=True)
            assert same(loaded.closest_hit(*rays), other.closest_hit(*rays))


def test_the_layout(tmp_path: Path, rng: Rng) -> None:
    """Arrays lie where the header says, each on 64 bytes, and take up the whole file."""
    tree, path = tree_of("triangles", rng), tmp_path / "tree.bvh"
    tree.save(path)
    data = path.read_bytes()
    header = unpacked(data[:HEADER_SIZE], len(data))
    assert (header.kind, header.quality, header.width) == ("triangles", "medium", WIDTH)
    assert (header.points, header.primitives) == (600, 200)
    end = HEADER_SIZE
    for entry in entries_of(header):
        assert entry.offset == end and end % ALIGNMENT == 0
        end += -(-entry.size // ALIGNMENT) * ALIGNMENT
    assert end == len(data)
    # Little-endian, whatever the host.
    entry = entries_of(header)[-1]
    faces = np.frombuffer(data, "<i4", 600, entry.offset)
    assert np.array_equal(faces, tree.faces.ravel())
    assert Parts(data).joined() == data


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_another_width_is_built_again(kind: str, width: int, tmp_path: Path, rng: Rng) -> None:
    """A file of a CPU with other vectors gives the same answers; mapping it warns of the work."""
    tree, path = tree_of(kind, rng), tmp_path / "tree.bvh"
    tree.save(path)
    path.write_bytes(Parts(path.read_bytes()).joined(width=width))
    rays = rays_at(tree, rng)
    if width == WIDTH:
        pytest.skip("not another width")
    other = bvh.load(path)
    other.validate()
    assert same(other.closest_hit(*rays), tree.closest_hit(*rays))
    with pytest.warns(bvh.BVHWarning, match=f"vectors of {width}"):
        other = bvh.load(path, mmap=True)
    assert same(other.closest_hit(*rays), tree.closest_hit(*rays))


def test_files_of_real_other_widths(tmp_path: Path, rng: Rng) -> None:
    """One process saves with another width, this one loads."""
    vertices, faces = soup(rng, 300)
    np.savez(tmp_path / "mesh.npz", vertices=vertices, faces=faces)
    script = f"""
import json, os, numpy as np, bvh
os.chdir({str(tmp_path)!r})
mesh = np.load("mesh.npz")
bvh.BVH.from_triangles(mesh["vertices"], mesh["faces"]).save("other.bvh")
print(json.dumps("saved"))
"""
    width = 4 if WIDTH != 4 else 8
    assert answer(fork(script, BVH_WIDTH=width)) == "saved"
    data = (tmp_path / "other.bvh").read_bytes()
    assert unpacked(data[:HEADER_SIZE], len(data)).width == width
    tree = BVH.from_triangles(vertices, faces)
    rays = rays_at(tree, rng)
    assert same(bvh.load(tmp_path / "other.bvh").closest_hit(*rays), tree.closest_hit(*rays))


def test_paths(tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strings, paths, links, the current folder; what is no file stays what it is."""
    tree = tree_of("boxes", rng, 20)
    monkeypatch.chdir(tmp_path)
    tree.save("plain")
    assert len(bvh.load("plain")) == 20
    os.symlink("plain", "link")
    tree_of("boxes", rng, 30).save("link")
    assert Path("link").is_symlink() and len(bvh.load("plain")) == len(bvh.load("link")) == 30
    umask = os.umask(0o027)
    try:
        tree.save(tmp_path / "mode")
    finally:
        os.umask(umask)
    assert os.name != "posix" or stat.S_IMODE(os.stat("mode").st_mode) == 0o640
    with pytest.raises(FileNotFoundError):
        tree.save("no/such")
    with pytest.raises(FileNotFoundError):
        bvh.load("no")
    with pytest.raises(ValueError, match="something else than a file"):
        tree.save(tmp_path)
    with pytest.raises(TypeError):
        bvh.load(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["fsync", "replace", "write"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_interrupted_save_changes_nothing(
    step: str, error: type[BaseException], tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, and nothing beside it."""

    tree_of("boxes", rng, 20).save(tmp_path / "tree.bvh")
    before = (tmp_path / "tree.bvh").read_bytes()

    def fail(*arguments: Any, **options: Any) -> None:
        raise error

    if step == "write":
        monkeypatch.setattr(file_formats, "entries_of", fail)
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(error):
        tree_of("boxes", rng, 30).save(tmp_path / "tree.bvh")
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["tree.bvh"]
    assert (tmp_path / "tree.bvh").read_bytes() == before
    assert len(bvh.load(tmp_path / "tree.bvh")) == 20


@pytest.mark.parametrize("kind", ["tree", "scene"])
def test_a_mapped_file_that_is_cut_off_before_its_first_use(kind: str, tmp_path: Path) -> None:
    """What is gone cannot be read: the system would end the process."""
    path, tree = (
        tmp_path / "one.bvh",
        BVH.from_boxes(*np.random.default_rng(1).random((2, 9999, 3))),
    )
    if kind == "scene":
        scene = Scene()
        scene.add(tree)
        scene.save(path)
    else:
        tree.save(path)
    mapped = bvh.load(path, mmap=True)
    os.truncate(path, 1024)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"one\.bvh: was cut off after it was mapped"):
            mapped.closest_hit([0.5, 0.5, 5.0], [0.0, 0.0, -1.0])


def test_a_mapped_tree_is_checked_once_at_its_first_use(
    tmp_path: Path, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever asks first, from many threads at once; what has failed fails again."""
    tree, path = tree_of("triangles", rng), tmp_path / "tree.bvh"
    tree.save(path)
    rays = rays_at(tree, rng)
    wanted = tree.closest_hit(*rays)
    calls: list[int] = []
    check = loading.check_tree

    def counted(*arguments: Any) -> None:
        calls.append(threading.get_ident())
        check(*arguments)

    monkeypatch.setattr(loading, "check_tree", counted)
    one = rays[0][0], rays[1][0]
    uses: list[Callable[[BVH], Any]] = [
        lambda t: t.arrays, repr, len, pickle.dumps, lambda t: t.kind, lambda t: t.faces,
        lambda t: t.closest_hit(*one), lambda t: t.closest_hit(*rays), lambda t: t.caster(),
        lambda t: t.any_hit(*rays), lambda t: t.stats(), lambda t: t.validate(),
        lambda t: t.save(tmp_path / "again.bvh"),
        lambda t: t.winding_number(rays[0]), lambda t: t.closest_point(rays[0]),
        lambda t: t.overlap_box(rays[0], rays[0]), lambda t: tree.overlap_tree(t),
        # Whichever a thread comes to first while another sets them.
        lambda t: t._closed, lambda t: t._quick, lambda t: t.distance(one[0]),
        lambda t: t.count_hits(*one),
    ]  # fmt: skip
    for use in uses:
        calls.clear()
        mapped = bvh.load(path, mmap=True)
        assert not calls
        use(mapped)
        use(mapped)
        assert len(calls) == 1
    calls.clear()
    mapped, start = bvh.load(path, mmap=True), threading.Barrier(8)

    def ask(i: int) -> bool:
        start.wait()
        one = mapped.closest_hit(rays[0][i], rays[1][i])
        return one.t == wanted.t[i] and same(mapped.closest_hit(*rays), wanted)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert len(calls) == 1
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    (tmp_path / "bad.bvh").write_bytes(data)
    for use in uses:
        mapped = bvh.load(tmp_path / "bad.bvh", mmap=True)
        assert mapped.bounds.shape == (2, 3)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"bad\.bvh: is damaged"):
                use(mapped)
    with pytest.raises(ValueError, match="is damaged"):
        bvh.load(tmp_path / "bad.bvh", mmap=True, audit=True)
    with pytest.raises(AttributeError, match="nonsense"):
        mapped.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="boxes has no vertices"):
        tree_of("boxes", rng).vertices  # noqa: B018


def answers(tree: Any, rays: tuple[np.ndarray, np.ndarray]) -> bytes:
    """Return what a tree, or the one at a path, answers: in another process."""
    if not isinstance(tree, BVH):
        tree = bvh.load(tree, mmap=True)
    return pickle.dumps(tree.closest_hit(*rays, threads=2))


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.long), "fork"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_share_a_tree(method: str, tmp_path: Path, rng: Rng) -> None:
    """By its path, each mapping the same file; pickled; and a mapped one pickled, by value."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method}")
    tree, path = tree_of("triangles", rng, 2_000), tmp_path / "tree.bvh"
    tree.save(path)
    rays = rays_at(tree, rng, 3_000)
    wanted = tree.closest_hit(*rays)
    mapped = bvh.load(path, mmap=True)
    with multiprocessing.get_context(method).Pool(2) as pool:
        jobs = [(given, rays) for given in (str(path), str(path), tree, mapped)]
        results = pool.starmap_async(answers, jobs, chunksize=1).get(300)
    assert all(same(pickle.loads(result), wanted) for result in results)
    path.unlink()
    assert same(mapped.closest_hit(*rays), wanted)


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read behind a checked header is read from the disk, with that header."""
    path = tmp_path / "boxes.bvh"
    BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]).save(path)

    def checked(start: bytes, size: int) -> Any:
        header = unpacked(start, size)
        # The time of the build, in place.
        with open(path, "r+b") as file:
            file.seek(72)
            file.write(bytes(8))
        return header

    monkeypatch.setattr(file_formats, "unpacked", checked)
    with pytest.raises(ValueError, match="was changed while it was read"):
        bvh.load(path)
