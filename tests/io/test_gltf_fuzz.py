"""Random glTF files, valid ones and spoiled ones, against a second reader.

BVH_FUZZ_SEED starts it, BVH_FUZZ_SECONDS bounds it (60 by default, for both tests together).
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bvh
from tests.cases.gltf_files import random_file, spoiled
from tests.oracles.gltf import Reader, assert_read

Rng = np.random.Generator
SECONDS = float(os.environ.get("BVH_FUZZ_SECONDS", "60")) / 2.0
# How files are stored: as GLB, with a buffer in the text, or in a file beside it.
WAYS = (("a.glb", ""), ("a.gltf", ""), ("a.gltf", "größe %41 b.bin"))


def written(rng: Rng, folder: Path) -> Path:
    """Write a random file."""
    name, buffer = WAYS[rng.integers(len(WAYS))]
    return random_file(rng).save(folder / name, buffer)


@contextlib.contextmanager
def copied(path: Path) -> Iterator[None]:
    """Tell of the file where something fails."""
    try:
        yield
    except BaseException:
        print(path.suffix, path.read_bytes())
        raise


@pytest.mark.filterwarnings("ignore::bvh.BVHWarning")
def test_random_files(tmp_path: Path, rng: Rng) -> None:
    """Names, places, vertices, faces, normals and texture coordinates are the same."""
    for _ in range(40):
        path = written(rng, tmp_path)
        with copied(path):
            assert_read(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bvh.BVHWarning")
def test_many_files(tmp_path: Path, rng: Rng) -> None:
    """The same, of as many files as there is time for."""
    end, count = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        path = written(rng, tmp_path)
        with copied(path):
            assert_read(path)
        count += 1
    print(f"{count} files")


def compare_spoiled(path: Path) -> str:
    """Read a spoiled file; return what came of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            bvh.load_scene(path)
        except ValueError:
            return "refused"
    if any(" is left out: its transform" in str(each.message) for each in told):
        return "told"
    try:
        Reader(path).parts()
    except Exception:
        # It is not made for such files: what it does not need must be right there, too.
        return "beyond the second reader"
    assert_read(path)
    return "read"


def fuzz_spoiled(rng: Rng, path: Path, seconds: float, files: int) -> Counter[str]:
    """Spoil random files, and compare what is read of them, if anything is."""
    end, found = time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < end and found.total() < files:
        file = written(rng, path)
        file.write_bytes(spoiled(file.read_bytes(), rng, file.suffix == ".glb"))
        with copied(file):
            found[compare_spoiled(file)] += 1
    return found


@pytest.mark.filterwarnings("ignore")
def test_spoiled_files(tmp_path: Path, rng: Rng) -> None:
    """A file that was changed is refused, or read as the second reader reads it."""
    found = fuzz_spoiled(rng, tmp_path, np.inf, 80)
    assert found["refused"] > 40 and found["read"] > 3, found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_spoiled_files(tmp_path: Path, rng: Rng) -> None:
    """The same, of as many files as there is time for."""
    print(fuzz_spoiled(rng, tmp_path, SECONDS, 10**6))
