"""Partitions that do not finish: their folders are refused by `bvh.load`, and left empty."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed import part_folder
from bvh.distributed.out_of_core import mesh_windows, partitioning
from tests.cases.families import sphere
from tests.children import start

pytestmark = pytest.mark.usefixtures("small_parts")
RAY = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]

# A partition into parts of 100 triangles that says when some are written, and then waits.
SLOW = """
import os, time
import bvh
from bvh.distributed.out_of_core import mesh_windows, partitioning
from tests.cases.families import sphere
partitioning.BUILD_BYTES = partitioning.SMALLEST_MEMORY // 100
def progress(done, total):
    if os.path.exists({folder!r} + "/00002.bvh"):
        print("here", flush=True)
        time.sleep(600)
bvh.partition(sphere(3), {folder!r}, memory="50MB", progress=progress)
"""


def refused_and_used_again(folder: Path) -> None:
    with pytest.raises(ValueError, match="has not finished"):
        bvh.load(folder)
    parts = bvh.partition(sphere(3), folder, memory="50MB")
    assert parts.part_count > 5
    tree = bvh.BVH.from_triangles(*sphere(3))
    found, wanted = (t.closest_hit(*RAY) for t in (bvh.load(folder), tree))
    assert (found.t, found.prim_id) == (wanted.t, wanted.prim_id)
    assert "unfinished" not in os.listdir(folder)


def test_a_killed_process(tmp_path: Path) -> None:
    """While it runs, no other one writes to the folder."""
    folder = tmp_path / "parts"
    child = start(SLOW.format(folder=str(folder)))
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "here\n"
        before = sorted(os.listdir(folder))
        with pytest.raises(FileExistsError, match="another process"):
            bvh.partition(sphere(3), folder)
        assert sorted(os.listdir(folder)) == before
    finally:
        child.kill()
        child.communicate()
    assert "00000.bvh" in before
    with pytest.raises(FileExistsError, match="killed: then remove them"):
        bvh.partition(sphere(3), folder)
    assert sorted(os.listdir(folder)) == before
    with pytest.raises(ValueError, match="has not finished"):
        bvh.load(folder)


def meshes(error: BaseException) -> Iterator[Any]:
    yield sphere(2)
    raise error


@pytest.mark.parametrize("error", [RuntimeError("no more"), KeyboardInterrupt(), SystemExit()])
def test_an_exception_of_the_source(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        bvh.partition(meshes(error), tmp_path / "parts", memory="50MB")
    assert os.listdir(tmp_path / "parts") == []
    refused_and_used_again(tmp_path / "parts")


def test_an_invalid_mesh_after_valid_ones(tmp_path: Path) -> None:
    vertices, faces = sphere(2)
    with pytest.raises(ValueError, match="source, mesh 1"):
        bvh.partition([(vertices, faces), (vertices, faces + 9)], tmp_path / "parts")
    refused_and_used_again(tmp_path / "parts")


@pytest.mark.parametrize("what", ["spill", "tree", "ids", "index", "rename"])
def test_a_full_disk(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, count = tmp_path / "parts", 0

    def full(*_: object, **__: object) -> None:
        nonlocal count
        count += 1
        if count > 2 or what in ("index", "rename"):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if what == "spill":
            patch.setattr(partitioning, "_append", full)
        elif what == "tree":
            patch.setattr(part_folder, "write_pieces", full)
        elif what == "ids":
            patch.setattr(np, "save", full)
        elif what == "index":
            patch.setattr(part_folder, "index_digest", full)
        else:
            patch.setattr(os, "replace", full)
        with pytest.raises(OSError):
            bvh.partition(sphere(3), folder, memory="50MB")
    assert os.listdir(folder) == []
    refused_and_used_again(folder)


@pytest.mark.parametrize("name", ["mine.npy", "index.json", ".hidden", "unfinished/all/mine"])
def test_files_of_somebody_else_are_kept(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError, match="folder has files in it"):
        bvh.partition(sphere(1), tmp_path)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["unfinished", "unfinished/all", "00000.bvh", "index.json"])
@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_links_in_the_folder(
    name: str, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written through them, even if they come after the folder was looked at."""
    other, folder = tmp_path / "other", tmp_path / "parts"
    other.mkdir()
    for precious in ("all", "index.json", "precious"):
        (other / precious).write_text("precious")
    source = other if name == "unfinished" and make is os.symlink else other / "precious"
    made = Path.mkdir

    def mkdir(path: Path, *args: Any, **options: Any) -> None:
        """Make the link before the folder of a run, or just after it."""
        begins = path.name == "unfinished"
        if begins and "/" not in name:
            make(source, folder / name)
        made(path, *args, **options)
        if begins and "/" in name:
            make(source, folder / name)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with contextlib.suppress(FileExistsError):
        bvh.partition(sphere(1), folder)
    assert {path.read_text() for path in other.iterdir()} == {"precious"}
    assert len(list(other.iterdir())) == 3


def test_a_finished_folder_with_the_mark_of_a_run(tmp_path: Path) -> None:
    """A process was killed after its last step but one: the index was written."""
    wanted = bvh.partition(sphere(1), tmp_path / "parts").closest_hit(*RAY)
    (tmp_path / "parts" / "unfinished").mkdir()
    assert bvh.load(tmp_path / "parts").closest_hit(*RAY).t == wanted.t
    with pytest.raises(FileExistsError):
        bvh.partition(sphere(1), tmp_path / "parts")
    assert bvh.load(tmp_path / "parts").closest_hit(*RAY).t == wanted.t


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    vertices, faces = sphere(1)
    path = os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.stl")
    header = bytes(80) + len(faces).to_bytes(4, "little")
    rows = np.zeros(len(faces), mesh_windows.STL_ROW)
    rows["corners"] = vertices[faces]
    try:
        Path(path).write_bytes(header + rows.tobytes())
    except OSError:
        pytest.skip("no such names on this disk")
    parts = bvh.partition(path, tmp_path / "parts")
    assert [source.name for source in bvh.load(tmp_path / "parts").sources] == [path]
    assert json.loads((tmp_path / "parts" / "index.json").read_bytes())["triangles"] == len(parts)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of POSIX")
def test_writes_that_fail(tmp_path: Path) -> None:
    """By the system: files may not grow beyond a limit, of any of those that are written."""
    import resource

    folder, (soft, hard) = tmp_path / "parts", resource.getrlimit(resource.RLIMIT_FSIZE)
    done: set[bool] = set()
    for limit in (100, 3000, 9000, 12_000, 20_000, 40_000, 60_000, 1 << 20):
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            bvh.partition(sphere(3), folder, memory="50MB")
        except OSError as error:
            assert error.errno in (errno.EFBIG, None)
            assert os.listdir(folder) == []
            done.add(False)
        else:
            done.add(True)
            assert len(bvh.load(folder)) == len(sphere(3)[1])
            shutil.rmtree(folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done == {False, True}
