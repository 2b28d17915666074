"""Kernels that somebody else has compiled: found, or not, and never an error."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import bvh
from bvh.runtime.cache import kernel_cache, kernel_files
from bvh.runtime.cache.kernel_folders import KernelFolder
from tests.children import PACKAGE, answer, start

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")

PROBE = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from bvh.runtime.cache.kernel_cache import cache_directory, kernel_shelves, tally
    from bvh.tree.nodes import local_boxes
    boxes = local_boxes(np.zeros((1, 3)), np.ones((1, 3)), np.zeros((2, 3)))
print(json.dumps({
    "upper": round(float(boxes[0, 3])), "counts": [tally.compiled, tally.loaded],
    "warnings": [str(one.message) for one in caught if "Warning" in one.category.__name__],
}))
"""


def probe(**settings: Any) -> list[Any]:
    """Run a small kernel; return how many were compiled, how many loaded, and what was told."""
    result = answer(start(PROBE, **{"BVH_CACHE_DIR": "off", "BVH_KERNELS": None} | settings))
    assert result["upper"] == 1
    return [*result["counts"], *result["warnings"]]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that a process has filled."""
    folder = tmp_path_factory.mktemp("compiled") / "filled"
    assert probe(BVH_CACHE_DIR=folder) == [1, 0]
    return folder


@pytest.fixture
def shelf(compiled: Path, tmp_path: Path) -> Path:
    """Return a folder that is filled, of the test's own."""
    # With its modes, without which nothing is loaded.
    return Path(shutil.copytree(compiled, tmp_path / "filled"))


def test_named_folders(shelf: Path, tmp_path: Path) -> None:
    """Looked into in their order, before anything is compiled; nothing is kept in them."""
    [version] = shelf.iterdir()
    before = sorted(version.iterdir())
    nowhere = tmp_path / "nowhere"
    (tmp_path / "empty").mkdir(mode=0o700)
    several = os.pathsep.join(map(str, (nowhere, tmp_path / "empty", shelf)))
    cache = tmp_path / "cache"
    assert probe(BVH_KERNELS=several, BVH_CACHE_DIR=cache) == [0, 1]
    assert not [path for path in cache.rglob("*") if path.is_file()]
    # Another version's, damaged, absent, or not to be used.
    version.rename(shelf / ("0" * 20))
    assert probe(BVH_KERNELS=shelf) == [1, 0]
    (shelf / ("0" * 20)).rename(version)
    [kernel] = version.glob("bvh.*")
    whole = kernel.read_bytes()
    kernel.write_bytes(whole[:-1])
    assert probe(BVH_KERNELS=shelf) == [1, 0]
    assert sorted(version.iterdir()) == before
    kernel.write_bytes(whole)
    assert probe(BVH_KERNELS="off") == [1, 0]
    assert probe(BVH_KERNELS=shelf) == [0, 1]


@posix
def test_shelves_that_others_can_write_to_are_not_used(shelf: Path) -> None:
    """It is not loaded, and that is said once."""
    [version] = shelf.iterdir()
    [kernel] = version.glob("bvh.*")
    for place in (shelf, version, kernel):
        place.chmod(place.stat().st_mode | 0o022)
        compiled, loaded, *told = probe(BVH_KERNELS=shelf)
        assert (compiled, loaded, len(told)) == (1, 0, 1)
        assert str(place) in told[0] and "can be written to by others" in told[0]
        # Everybody may read.
        place.chmod(0o644 if place == kernel else 0o755)
    assert probe(BVH_KERNELS=shelf) == [0, 1]


def test_the_package(shelf: Path, tmp_path: Path) -> None:
    """Where it is installed it is found, without a setting; as trusted as all that is imported."""
    site = tmp_path / "site"
    (site / "raybvh_kernels").mkdir(parents=True)
    (site / "raybvh_kernels" / "__init__.py").write_text("raise ImportError")
    [version] = shelf.iterdir()
    version.rename(site / "raybvh_kernels" / version.name)
    (site / "raybvh_kernels" / version.name).chmod(0o775)
    path = os.pathsep.join([str(PACKAGE.parent), str(site)])
    assert probe(PYTHONPATH=path) == [0, 1]
    assert probe(PYTHONPATH=path, BVH_KERNELS="off") == [1, 0]


def test_a_package_in_the_working_directory(shelf: Path, tmp_path: Path) -> None:
    """Python finds it where it looks into the working directory; others may have put it there."""
    shelf.rename(tmp_path / "raybvh_kernels")
    script = f"""
import json, os, sys
sys.path.insert(0, "")
os.chdir({str(tmp_path)!r})
from bvh.runtime.cache.kernel_cache import kernel_shelves
print(json.dumps({{"found": len(kernel_shelves())}}))
"""
    assert answer(start(script, BVH_KERNELS=None)) == {"found": 0}


def test_without_sources_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would tell this version's kernels from another's."""
    (tmp_path / kernel_cache.fingerprint()).mkdir(mode=0o700)
    (tmp_path / kernel_cache.fingerprint() / "kernel").touch()
    monkeypatch.setenv("BVH_KERNELS", str(tmp_path))
    assert kernel_cache.kernel_shelves.__wrapped__()
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path / "frozen" / "bvh")
    assert kernel_cache.kernel_shelves.__wrapped__() == ()


def test_files_of_other_versions_count_as_absent(tmp_path: Path) -> None:
    """A class that is not there any more is no error."""
    folder = KernelFolder(tmp_path)
    store = kernel_files.KernelFiles(None, "kernel", [folder])
    payload = b"cno.such.module\nName\n."
    folder.write(store._name("key"), hashlib.sha256(payload).digest() + payload)
    assert store.load("key") is None
    store.save("key", 1)
    assert len(folder.names()) == 1


def test_the_extra_is_of_this_version() -> None:
    project = PACKAGE.parent / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not in a clone")
    [version] = re.findall(r'"raybvh-kernels==([^"]+)"', project.read_text(encoding="utf-8"))
    assert version == bvh.__version__
