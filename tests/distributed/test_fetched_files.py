"""Parts at URLs: fetched once, checked, fetched again when the copy is damaged."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed import fetched_files
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere
from tests.cases.forged_files import forgeable_sphere, forged
from tests.cases.partitions import parts_of

fsspec = pytest.importorskip("fsspec")

RAY = [3.0, 0.1, 0.2], [-1.0, 0.0, 0.0]
URL = "memory://city/parts"


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BVH_PARTS_DIR", str(tmp_path / "copies"))
    return tmp_path / "copies"


@pytest.fixture
def wanted() -> Any:
    return bvh.BVH.from_triangles(*sphere(2)).all_hits(*RAY)


@pytest.fixture
def files(copies: Path) -> Any:
    """The memory file system, with three parts that surround the centre."""
    vertices, faces = sphere(2)
    memory = fsspec.filesystem("memory")
    parts_of(URL, vertices, faces, np.arange(len(faces)) % 3)
    yield memory
    memory.rm("/city", recursive=True)


def visible(folder: Path) -> list[Path]:
    """Return the copies in a folder, without locks and what is being fetched."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def same(target: Any, wanted: Any) -> None:
    """Check a query that needs all parts."""
    found = target.all_hits(*RAY)
    np.testing.assert_array_equal(found.t, wanted.t)
    np.testing.assert_array_equal(found.prim_id, wanted.prim_id)


def test_partition_to_memory(copies: Path, wanted: Any) -> None:
    parts = bvh.partition(sphere(2), "memory://town")
    for target in (parts, bvh.load("memory://town"), bvh.load("memory://town/")):
        same(target, wanted)
    assert len(visible(copies)) == 2
    with pytest.raises(FileExistsError):
        bvh.partition(sphere(2), "memory://town")
    fsspec.filesystem("memory").rm("/town", recursive=True)


def test_an_interrupted_partition(copies: Path, wanted: Any, monkeypatch: Any) -> None:
    memory = fsspec.filesystem("memory")

    def refuse(*_: object) -> None:
        raise OSError("no connection")

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "pipe_file", refuse)
        with pytest.raises(OSError, match="no connection"):
            bvh.partition(sphere(2), "memory://town")
    with pytest.raises(ValueError, match="has not finished it"):
        bvh.load("memory://town")
    assert memory.find("/town") == []
    same(bvh.partition(sphere(2), "memory://town"), wanted)
    memory.rm("/town", recursive=True)


def test_files_of_somebody_else_at_a_url() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/mine/notes.txt", b"mine")
    with pytest.raises(FileExistsError, match="has files in it"):
        bvh.partition(sphere(1), "memory://mine")
    assert memory.find("/mine") == ["/mine/notes.txt"]
    memory.rm("/mine", recursive=True)


def test_a_local_folder_as_url(tmp_path: Path, copies: Path, wanted: Any) -> None:
    vertices, faces = sphere(2)
    parts_of(tmp_path / "parts", vertices, faces, np.arange(len(faces)) % 3)
    same(bvh.load(f"file://{tmp_path}/parts"), wanted)


def test_a_server_that_knows_no_parts_of_files(files: Any, copies: Path, wanted: Any) -> None:
    """Of HTTP a whole file is asked for, which is a block size of 0."""

    class Server(type(files)):  # type: ignore[misc]
        protocol = "http", "https"

        @classmethod
        def _strip_protocol(cls, path: str) -> Any:
            return super()._strip_protocol(path.removeprefix("plain-http://"))

        def _open(self, path: str, *args: Any, block_size: Any = None, **options: Any) -> Any:
            if block_size:
                raise ValueError("the server doesn't support range requests")
            return super()._open(path, *args, **options)

    fsspec.register_implementation("plain-http", Server, clobber=True)
    same(Parts("plain-http://city/parts"), wanted)


@pytest.mark.parametrize("name", ["00001.bvh", "00001.npy"])
@pytest.mark.parametrize("how", ["missing", "cut off", "one byte", "exchanged"])
def test_bad_files_at_a_url(name: str, how: str, files: Any) -> None:
    path = f"/city/parts/{name}"
    content = bytearray(files.cat_file(path))
    if how == "missing":
        files.rm(path)
    elif how == "cut off":
        files.pipe_file(path, bytes(content[:-64]))
    elif how == "one byte":
        content[len(content) // 2] ^= 1
        files.pipe_file(path, bytes(content))
    else:
        files.pipe_file(path, files.cat_file(path.replace("1.", "2.")))
    with pytest.raises(ValueError, match=rf"part 1 \({name}\)"):
        Parts(URL).all_hits(*RAY)


def test_a_forged_part_at_another_url(copies: Path, tmp_path: Path) -> None:
    """It has the checksums of the honest one: no copy of it is used for the honest address."""
    for name in ("honest", "forged"):
        folder = tmp_path / name
        wanted = parts_of(folder, *forgeable_sphere(), np.zeros(128, int)).corners(range(128))
    path = folder / "00000.bvh"
    shutil.copytree(tmp_path / "honest", folder, dirs_exist_ok=True)
    path.write_bytes(forged(path.read_bytes()))
    with pytest.raises(ValueError, match=r"part 0 \(00000.bvh\) is not the file of the index"):
        bvh.load(f"file://{folder}").corners(range(128))
    parts = bvh.load(f"file://{tmp_path / 'honest'}")
    np.testing.assert_array_equal(parts.corners(range(128)), wanted)


class Endless:
    """A file that never ends, and what has been read of it."""

    def __init__(self) -> None:
        self.found = 0

    def read(self, count: int) -> bytes:
        self.found += count
        assert self.found < 1 << 26
        return bytes(count)

    def __enter__(self) -> Endless:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("ending", ["bvh", "npy"])
def test_a_server_that_sends_more_than_was_announced(
    ending: str, files: Any, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, open_file, parts = Endless(), type(files).open, Parts(URL)

    def endless(self: Any, path: str, *rest: Any, **more: Any) -> Any:
        return sent if path.endswith(f"1.{ending}") else open_file(self, path, *rest, **more)

    monkeypatch.setattr(type(files), "open", endless)
    with pytest.raises(ValueError, match=rf"part 1 \(00001.{ending}\) has more bytes"):
        parts.all_hits(*RAY)
    record = parts.records[1]
    assert sent.found == (record.tree_bytes if ending == "bvh" else record.ids_bytes) + 1
    assert not [path for path in copies.glob(".*") if path.stat().st_size]


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_links_in_the_folder_of_copies(
    make: Any, files: Any, copies: Path, wanted: Any, tmp_path: Path
) -> None:
    """Nothing is written through a link with the name of a file that is being fetched."""
    (tmp_path / "precious").write_text("precious")
    copies.mkdir()
    parts = Parts(URL)
    for record in parts.records:
        for name in (f"{record.tree_digest}.bvh", f"{record.ids_digest}.npy"):
            make(tmp_path / "precious", copies / f".{name}.lock")
            make(tmp_path / "precious", copies / f".part-{name}")
    same(parts, wanted)
    assert (tmp_path / "precious").read_text() == "precious"
    assert len(visible(copies)) == 6


def test_a_relative_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is meant as it was at the import, wherever the process goes."""
    monkeypatch.delenv("BVH_PARTS_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    folder = fetched_files.cache_folder()
    monkeypatch.chdir(tmp_path)
    assert folder.is_absolute() and fetched_files.cache_folder() == folder


@pytest.mark.parametrize("ending", [".bvh", ".npy"])
@pytest.mark.parametrize("how", ["removed", "emptied", "one byte", "first byte", "exchanged"])
def test_a_damaged_copy_is_fetched_again(
    how: str, ending: str, files: Any, copies: Path, wanted: Any
) -> None:
    same(Parts(URL), wanted)
    path, other = sorted(copies.glob(f"*{ending}"))[:2]
    content = bytearray(path.read_bytes())
    good = bytes(content)
    if how == "removed":
        path.unlink()
    elif how == "exchanged":
        os.replace(other, path)
    else:
        content[len(content) // 2 if how == "one byte" else 0] ^= 1
        path.write_bytes(b"" if how == "emptied" else content)
    same(Parts(URL), wanted)
    assert path.read_bytes() == good
    assert len(visible(copies)) == 6


def test_each_file_is_fetched_by_one_of_many(
    files: Any, copies: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks of files hold between threads as between processes."""
    pytest.importorskip("fcntl")  # On Windows each process has a file of its own.
    fetched: list[str] = []
    open_file = type(files).open

    def slow(self: Any, remote: str, mode: str, **more: Any) -> Any:
        if not remote.endswith("index.json"):
            fetched.append(remote)
            time.sleep(0.01)
        return open_file(self, remote, mode, **more)

    monkeypatch.setattr(type(files), "open", slow)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(Parts(URL).all_hits(*RAY, threads=1)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [hits.t.tolist() for hits in found] == [wanted.t.tolist()] * 6
    assert len(fetched) == len(set(fetched)) == 6
    assert len(visible(copies)) == 6


def test_what_a_killed_process_was_fetching(files: Any, copies: Path, wanted: Any) -> None:
    """Without locks, its files stay: nobody knows that it has ended."""
    pytest.importorskip("fcntl")
    copies.mkdir()
    for record in Parts(URL).records:
        (copies / f".part-{record.tree_digest}.bvh").write_bytes(b"half")
    same(Parts(URL), wanted)
    assert len(visible(copies)) == 6 and not list(copies.glob(".part-*"))


def test_a_child_of_the_process_that_fetched(
    files: Any, copies: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still hold the lock; the copy is there."""
    same(Parts(URL), wanted)
    first = copies.rename(copies.with_name("first"))

    def held(file: int) -> bool:
        shutil.copytree(first, copies, dirs_exist_ok=True)
        return False

    monkeypatch.setattr(fetched_files, "lock_file", held)
    same(Parts(URL), wanted)
    assert len(visible(copies)) == 6


def no_locks(file: int) -> bool:
    raise OSError(errno.ENOLCK, "no locks")


def test_a_disk_without_locks(
    files: Any, copies: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetched_files, "lock_file", no_locks)
    same(Parts(URL), wanted)
    assert len(visible(copies)) == 6


def test_copies_that_are_open_and_cannot_be_replaced(
    files: Any, copies: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, by whom has fetched the same meanwhile, without locks. The first is as good."""
    replace = os.replace

    def put(source: Any, target: Any) -> None:
        if Path(target).parent == copies:
            # The other one's, a moment earlier.
            replace(source, target)
            raise PermissionError(13, "Access is denied")
        replace(source, target)

    monkeypatch.setattr(fetched_files, "lock_file", no_locks)
    monkeypatch.setattr(os, "replace", put)
    same(Parts(URL), wanted)
    assert len(visible(copies)) == 6

    def refuse(source: Any, target: Any) -> None:
        raise PermissionError(13, "Access is denied")

    shutil.rmtree(copies)
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        Parts(URL).all_hits(*RAY)


def test_a_home_that_cannot_be_written_to(
    files: Any, tmp_path: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies go to a temporary folder; where a folder was asked for, the error names it."""
    (tmp_path / "home").touch()
    monkeypatch.setenv("BVH_PARTS_DIR", str(tmp_path / "home" / "copies"))
    with pytest.raises(OSError, match="BVH_PARTS_DIR"):
        Parts(URL).all_hits(*RAY)
    monkeypatch.delenv("BVH_PARTS_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    same(Parts(URL), wanted)
    folder = fetched_files.temporary_folder(os.getpid())
    assert len(visible(folder)) == 6


def test_copies_in_a_folder_that_is_only_read(
    files: Any, copies: Path, wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    same(Parts(URL), wanted)
    monkeypatch.setattr(os, "access", lambda *_: False)
    same(Parts(URL), wanted)


def test_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    load, hidden = builtins.__import__, ("fsspec", "fsspec.core")

    def without(name: str, *rest: Any) -> Any:
        if name in hidden:
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in hidden:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for call in (lambda: bvh.load("s3://b/c"), lambda: bvh.partition(sphere(1), "s3://b/c")):
        with pytest.raises(ImportError, match=r'pip install "raybvh\[dask\]"'):
            call()
