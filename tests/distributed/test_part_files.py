"""Files of parts: what is missing, damaged or exchanged is named before any answer."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core import open_parts
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere
from tests.cases.forged_files import forgeable_sphere, forged
from tests.cases.frozen_files import saved_index
from tests.cases.partitions import parts_of

RAY = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vertices, faces = sphere(2)
    # Every part surrounds the centre, so that no ray can do without any.
    parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    return tmp_path / "parts"


def damage(path: Path, at: int) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["00001.bvh", "00001.npy"])
@pytest.mark.parametrize("how", ["missing", "cut off", "one byte", "exchanged"])
def test_bad_files_of_a_part(name: str, how: str, folder: Path) -> None:
    path = folder / name
    if how == "missing":
        path.unlink()
    elif how == "cut off":
        path.write_bytes(path.read_bytes()[:-64])
    elif how == "one byte":
        damage(path, path.stat().st_size // 2)
    else:
        shutil.copy(path.with_name(name.replace("1", "2")), path)
    with pytest.raises(ValueError, match=f"part 1 .*{name}"):
        bvh.load(folder).all_hits(*RAY)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"format": "bvh parts"}'])
def test_index_that_is_no_index(text: str, folder: Path) -> None:
    (folder / "index.json").write_text(text)
    with pytest.raises(ValueError, match=r"index\.json"):
        bvh.load(folder)


def test_a_forged_part(tmp_path: Path) -> None:
    """It has the sizes, checksums, box and counts of another, and is no damaged file."""
    folder = tmp_path / "parts"
    parts_of(folder, *forgeable_sphere(), np.zeros(128, int)).validate()
    path, wanted = folder / "00000.bvh", bvh.load(folder).corners(range(128))
    path.write_bytes(forged(path.read_bytes()))
    assert not np.array_equal(bvh.load(folder).corners(range(128)), wanted)
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\) is not the file of the index"):
        bvh.load(folder).validate()
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\) is not the file of the index"):
        bvh.load(folder, audit=True)


def test_a_forged_part_that_was_put_back(tmp_path: Path) -> None:
    """What is checked is what answers, not what has its name by now."""
    folder = tmp_path / "parts"
    parts_of(folder, *forgeable_sphere(), np.zeros(128, int))
    path, wanted = folder / "00000.bvh", bvh.load(folder).corners(range(128))
    path.rename(tmp_path / "honest")
    path.write_bytes(forged((tmp_path / "honest").read_bytes()))
    parts = bvh.load(folder)
    assert not np.array_equal(parts.corners(range(128)), wanted)
    (tmp_path / "honest").rename(path)
    parts.validate()
    np.testing.assert_array_equal(parts.corners(range(128)), wanted)


@pytest.mark.parametrize("groups", [None, 5])
def test_an_index_of_an_older_version(groups: int | None, folder: Path) -> None:
    """Versions 1 and 2 are refused with what to do."""
    if groups is not None:
        shutil.rmtree(folder)
        bvh.partition(sphere(2), folder, groups=groups)
    index = saved_index(folder)
    assert index["version"] == (1 if groups is None else 2)
    (folder / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        ValueError, match=r"of bvh 0\.2\.0 or before, .*: call bvh\.partition again"
    ):
        bvh.load(folder)


def test_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no index\.json"):
        bvh.load(tmp_path)


def test_parts_are_let_go_within_memory(folder: Path) -> None:
    size = sum((folder / f"00000.{ending}").stat().st_size for ending in ("bvh", "npy"))
    parts = Parts(folder, memory=2 * size + 100)
    parts.closest_hit(*RAY)
    assert len(parts.opened._open) == 2
    assert len(Parts(folder, memory=1).opened._open) == 0


def both_files(folder: Path, first: str, second: str) -> None:
    """Exchange two files."""
    one, two = folder / first, folder / second
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)


def test_groups_share_memory(folder: Path) -> None:
    """All groups of a process map no more than one of them may, as all that tasks query do."""
    parts = Parts(folder, memory=1)
    groups = parts.groups()
    assert len(groups) == parts.part_count > 2
    rays = np.random.default_rng(1).normal(size=(2, 500, 3))
    for group in groups:
        group.closest_hit(*rays)
        assert [len(some.groups()) for some in groups] == [1] * len(groups)
    assert {id(some.opened) for some in groups} == {id(parts.opened)}
    assert len(parts.opened._open) == 1


def test_more_parts_than_files_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Each needs two descriptors; parts of one mesh take half of those of a process."""
    vertices, faces = sphere(2)
    tree = bvh.BVH.from_triangles(vertices, faces)
    origins = np.random.default_rng(7).normal(size=(300, 3)) * 3
    parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 60)
    monkeypatch.setattr(open_parts, "most_files", lambda: 80)
    parts = Parts(tmp_path / "parts")
    for _ in range(2):
        found, wanted = (target.all_hits(origins, -origins) for target in (parts, tree))
        np.testing.assert_array_equal(found.prim_id, wanted.prim_id)
    assert len(parts.opened._open) == 20


def test_ids_count_as_memory(folder: Path) -> None:
    assert len(Parts(folder, memory=Parts(folder).nbytes).groups()) == 1
    assert len(Parts(folder, memory=Parts(folder).nbytes - 1).groups()) == 2


@pytest.mark.parametrize("endings", [["bvh"], ["npy"], ["bvh", "npy"]])
def test_two_parts_that_are_exchanged(endings: list[str], folder: Path) -> None:
    for ending in endings:
        both_files(folder, f"00000.{ending}", f"00001.{ending}")
    with pytest.raises(ValueError, match="part 0"):
        bvh.load(folder).all_hits(*RAY)


def test_a_missing_part_is_named_before_any_query(folder: Path) -> None:
    (folder / "00002.npy").unlink()
    with pytest.raises(ValueError, match=r"part 2 \(00002.npy\) is missing"):
        bvh.load(folder)


@pytest.mark.parametrize("ending", ["bvh", "npy"])
@pytest.mark.parametrize("how", ["removed", "one byte", "exchanged"])
def test_files_that_change_after_they_were_checked(how: str, ending: str, folder: Path) -> None:
    """Parts are opened again when memory was needed for others; a copy has the times of a file."""
    parts, path = Parts(folder, memory=1), folder / f"00000.{ending}"
    wanted, before = parts.all_hits(*RAY).t, path.stat()
    np.testing.assert_array_equal(parts.all_hits(*RAY).t, wanted)
    if how == "removed":
        path.unlink()
    else:
        if how == "one byte":
            damage(path, before.st_size // 2)
        else:
            os.replace(folder / f"00001.{ending}", path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ValueError, match=rf"part 0 .*00000.{ending}"):
        parts.all_hits(*RAY)


@pytest.mark.parametrize("ending", ["bvh", "npy"])
@pytest.mark.parametrize("how", ["cut off", "one byte", "moved", "replaced"])
def test_files_that_change_while_they_are_mapped(how: str, ending: str, folder: Path) -> None:
    """What is left of a file that was cut off is never read: the rest would be a bus error."""
    parts, path = Parts(folder), folder / f"00000.{ending}"
    wanted, content = parts.all_hits(*RAY).t, path.read_bytes()
    if how == "cut off":
        os.truncate(path, 64)
    elif how == "one byte":
        damage(path, len(content) // 2)
    else:
        # These stay mapped as they were, whatever has their names now.
        path.rename(path.with_name("moved"))
        if how == "replaced":
            path.write_bytes(bytes(100))
        np.testing.assert_array_equal(parts.all_hits(*RAY).t, wanted)
        return
    with pytest.raises(ValueError, match=rf"part 0 .*00000.{ending}"):
        parts.all_hits(*RAY)
    path.write_bytes(content)
    np.testing.assert_array_equal(parts.all_hits(*RAY).t, wanted)


def test_bytes_are_checked_once_in_a_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    digest = open_parts.file_digest
    monkeypatch.setattr(open_parts, "file_digest", lambda *a: read.append(a[0]) or digest(*a))
    for _ in range(3):
        Parts(folder, memory=1).all_hits(*RAY)
    assert sorted(path.name for path in read) == ["00000.npy", "00001.npy", "00002.npy"]


def test_threads_that_need_more_parts_than_fit(folder: Path) -> None:
    """A part is let go by one thread while another one still queries it."""
    vertices, faces = sphere(2)
    tree, parts = bvh.BVH.from_triangles(vertices, faces), Parts(folder, memory=1)
    origins = np.random.default_rng(7).normal(size=(300, 3)) * 3
    wanted, failed = tree.all_hits(origins, -origins), []

    def query() -> None:
        try:
            for _ in range(5):
                found = parts.all_hits(origins, -origins, threads=1)
                np.testing.assert_array_equal(found.t, wanted.t)
                np.testing.assert_array_equal(found.prim_id, wanted.prim_id)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=query) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_an_interrupted_query_leaves_parts_as_they_were(folder: Path) -> None:
    parts = Parts(folder, memory=1)
    wanted = bvh.BVH.from_triangles(*sphere(2)).closest_hit(*RAY)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.closest_hit(*RAY, progress=interrupt)
    found = parts.closest_hit(*RAY)
    assert (found.t, found.prim_id) == (wanted.t, wanted.prim_id)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_waits_for_no_thread_of_its_parent(folder: Path) -> None:
    parts, (begin, held), go_on = Parts(folder, memory=1), os.pipe(), threading.Event()
    wanted = parts.closest_hit(*RAY).t

    def hold() -> None:
        with open_parts._guard.lock:
            os.write(held, b"1")
            go_on.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    os.read(begin, 1)
    child = os.fork()
    if child == 0:
        os._exit(0 if parts.closest_hit(*RAY, threads=1).t == wanted else 1)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join()
    os.close(begin)
    os.close(held)
    assert status == 0
