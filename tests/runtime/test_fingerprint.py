"""The fingerprint of kernels covers all that their machine code is made of, and little else."""

from __future__ import annotations

import ast
import os
import shutil
import sys
import time
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

import bvh
from bvh.runtime import jit
from bvh.runtime.cache import kernel_sources as sources_of_kernels
from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.cache.kernel_sources import KERNEL_FOLDERS, WITHOUT_KERNELS, kernel_sources
from bvh.runtime.calls.entries import Entry
from bvh.runtime.compiler import kernel_cache
from bvh.runtime.compiler.kernel_cache import exact_fingerprint, fingerprint_of
from tests.children import answer, fork
from tests.oracles.kernel_sources import Package

PACKAGE = Path(bvh.__file__).parent


@pytest.fixture(scope="module")
def hashed() -> set[str]:
    """Return the files whose kernels the fingerprint covers."""
    return set(kernel_sources(PACKAGE))


# Parsed by the process that runs these tests, not by all that collect them.
@pytest.fixture(scope="module")
def parsed() -> Package:
    """Return the statements of the package."""
    return Package(PACKAGE)


def name_of(parsed: Package, module: str) -> str:
    return parsed.paths[module].relative_to(PACKAGE).as_posix()


def test_every_part_of_a_kernel_is_hashed(hashed: set[str], parsed: Package) -> None:
    """Constants of other files, and what computes them, are part of machine code."""
    parts = parsed.parts_of_kernels()
    assert len({part.module for part in parts}) > 100
    for part, namer in parts.items():
        # The programs of the documentation are a user's: Numba compiles them.
        if not part.module.startswith("bvh.docs.programs."):
            by = namer.module if namer else "itself"
            assert name_of(parsed, part.module) in hashed, (
                f"named by {by}: {ast.unparse(part.node)}"
            )


def test_entries_in_memory_come_from_hashed_files(hashed: set[str], parsed: Package) -> None:
    """Of all that has been imported."""
    jit.all_recipes()
    names = set()
    for module in [sys.modules[name] for name in parsed.paths if name in sys.modules]:
        for thing in vars(module).values():
            kept = isinstance(getattr(thing, "_cache", None), kernel_cache.KernelCache)
            if kept or isinstance(thing, Entry):
                names.add(thing.__module__)
    assert len(names) > 30 and {name_of(parsed, name) for name in names} <= hashed


@pytest.fixture
def unedited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that a test writes be older than the process."""
    monkeypatch.setattr(sources_of_kernels, "IMPORTED", time.time() + 3600)


@pytest.mark.usefixtures("unedited")
@pytest.mark.parametrize(
    "text",
    [
        "from bvh.runtime.jit import entry as e, warms",
        "from bvh.runtime.jit import (\n    types,\n    inlined,\n)",
        "import bvh.runtime.jit as j\n@j.kernel\ndef f(): pass",
        "from bvh.runtime import forks, jit\n@jit.inlined\ndef f(): pass",
    ],
)
def test_files_that_compile_are_recognised(text: str, tmp_path: Path) -> None:
    """By any form of the import, in any folder."""
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "a.py").write_text(text)
    assert list(kernel_sources(tmp_path)) == ["queries/a.py"]


@pytest.mark.usefixtures("unedited")
def test_files_that_only_run_kernels_are_not_hashed(hashed: set[str], tmp_path: Path) -> None:
    """Most of queries are Python; so are files that have words of kernels."""
    texts = (
        "from bvh.runtime.jit import (\n    entry_point,\n    warms,\n)\nentry = 1",
        "kernel = 1",
    )
    for place, text in enumerate(texts):
        (tmp_path / f"{place}.py").write_text(text)
    assert not kernel_sources(tmp_path)
    assert not {"queries/hierarchy.py", "scene/scene.py", "queries/results.py"} & hashed
    assert {"kernels.py", "io/polygons.py", "tree/frame.py", "runtime/jit.py"} <= hashed


def test_names_of_folders_are_right(hashed: set[str]) -> None:
    shipped = {"benchmarks", "meshes"}
    assert all((PACKAGE / name).exists() for name in {*KERNEL_FOLDERS, *WITHOUT_KERNELS} - shipped)
    assert all(not name.startswith(WITHOUT_KERNELS) for name in hashed)


SOURCE = '''
"""A module."""

from bvh.runtime.calls.entries import entry
SIZE = 8


class Table:
    """A table."""

    ROWS = 2


@entry
def add(a, step=1.0):
    """Add."""
    b = a[:SIZE]
    return b + step
'''


@pytest.fixture
def package(tmp_path: Path, unedited: None) -> Path:
    root = tmp_path / "bvh"
    (root / "tree").mkdir(parents=True)
    (root / "tree" / "kernel.py").write_text(SOURCE)
    return root


def fingerprint_with(package: Path, text: str) -> str:
    (package / "tree" / "kernel.py").write_text(text)
    return fingerprint_of(kernel_sources(package))


@pytest.mark.parametrize(
    "old, new",
    [
        ("SIZE = 8", "SIZE = 9"),
        ("SIZE = 8", "SIZE = 8.0"),
        ("SIZE = 8", "SIZE = True"),
        ("SIZE = 8", "SIZE: int"),
        ("ROWS = 2", "ROWS = 3"),
        ("step=1.0", "step=2.0"),
        ("step=1.0", "step"),
        ("a[:SIZE]", "a[SIZE:]"),
        ("b + step", "b - step"),
        ("@entry", "@entry\n@entry"),
        ("    return b + step", "    return b\n    return step"),
        ("SIZE = 8", "SIZE = 'text'"),
        ("SIZE = 8", "global SIZE\nSIZE = 8"),
        ("import entry", "import entry as inlined"),
    ],
)
def test_another_meaning_has_another_fingerprint(old: str, new: str, package: Path) -> None:
    before = fingerprint_with(package, SOURCE)
    assert old in SOURCE and fingerprint_with(package, SOURCE.replace(old, new)) != before


@pytest.mark.parametrize(
    "old, new",
    [
        ('"""A module."""', '"""Another\n\nmodule."""'),
        ('    """A table."""\n', ""),
        ('"""Add."""', "'Add a step.'"),
        ("SIZE = 8", "# Why eight.\n\n\nSIZE = (8)  # rows"),
        ("a, step=1.0", "\n    a,\n    step=1.0,\n"),
    ],
)
def test_the_same_meaning_has_the_same_fingerprint(old: str, new: str, package: Path) -> None:
    """Comments, docstrings and lines do not count; the bytes are others."""
    before, exact = fingerprint_with(package, SOURCE), exact_fingerprint(kernel_sources(package))
    assert old in SOURCE and fingerprint_with(package, SOURCE.replace(old, new)) == before
    assert exact_fingerprint(kernel_sources(package)) != exact


def test_names_of_files_have_a_meaning(package: Path) -> None:
    before = fingerprint_of(kernel_sources(package))
    (package / "tree" / "kernel.py").rename(package / "tree" / "other.py")
    assert fingerprint_of(kernel_sources(package)) != before
    # Files with a syntax error count by their bytes.
    assert fingerprint_with(package, "def") != fingerprint_with(package, "def ")


def test_sources_that_were_edited_after_the_import_are_unknown(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process compiles what it has imported, which is not what others read."""
    source = package / "tree" / "kernel.py"
    monkeypatch.setattr(sources_of_kernels, "IMPORTED", time.time() - 10)
    assert not kernel_sources(package)
    os.utime(source, (0, time.time() - 20))
    assert kernel_sources(package)
    # A clock that is wrong.
    os.utime(source, (0, time.time() + 1000))
    assert kernel_sources(package)


def test_a_package_without_sources_is_unknown(tmp_path: Path) -> None:
    assert kernel_cache.version_of.__wrapped__(tmp_path / "frozen").exact == ""


# The copy of the package is imported again and again: its bytecode stays.
PROBE = """
import json, sys
sys.dont_write_bytecode = False
import numpy as np
from bvh.runtime.compiler import kernel_cache
from bvh.tree.nodes import local_boxes
box = local_boxes(np.zeros((1, 3)), np.ones((1, 3)), np.zeros((2, 3)))[0]
print(json.dumps([round(float(box[3])), kernel_cache.tally.compiled, kernel_cache.tally.loaded]))
"""


def test_edits_and_what_is_compiled_again(tmp_path: Path) -> None:
    """Kernels that use a changed constant are; kernels of unchanged meaning are not."""
    # Also the function that calls all kernels.
    package = tmp_path / "bvh"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))

    def edit(name: str, old: str, new: str) -> None:
        text = (package / name).read_text()
        assert old in text
        (package / name).write_text(text.replace(old, new, 1))
        # Python tells versions of a file apart by its size and its time in seconds.
        Path(cache_from_source(str(package / name))).unlink(missing_ok=True)

    def probe() -> Any:
        return answer(fork(PROBE, package, BVH_CACHE_DIR=tmp_path / "cache", BVH_KERNELS="off"))

    floats, nodes = "geometry/arithmetic/floats.py", "tree/nodes.py"
    times = "def times(x, k=FACTOR):\n    return x * k\n\n\n@inlined\ndef finite(v):"
    edit(floats, "INF = np.inf", "INF = np.inf\nFACTOR = 2.0")
    edit(floats, "def finite(v):", times)
    edit(nodes, "\nfrom bvh", "\nfrom bvh.geometry.arithmetic import floats\nfrom bvh")
    edit(nodes, "(high[0] - middle[0]) * s)", "floats.times(high[0] * s) * floats.FACTOR)")
    assert probe() == [4, 2, 0]
    edit(floats, "FACTOR = 2.0", "FACTOR = 3.0")
    assert probe() == [9, 2, 0]
    edit(nodes, "def above(x):", "def above(x, more=np.float32(5.0)):")
    edit(nodes, "next_above(x)", "next_above(x * more)")
    assert probe() == [45, 2, 0]
    # Comments, docstrings and lines of the kernel's file; Python of queries.
    edit(nodes, "SMALLEST_PLANE =", "# The smallest.\n\n\nSMALLEST_PLANE =")
    edit(nodes, '"""Return the float32 next', '"""The float32 next')
    edit("queries/results.py", "import", "assert 1\nimport")
    assert probe() == [45, 0, 2]


def test_the_exact_fingerprint_finds_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is parsed where a folder has a note; nobody else may write one."""
    monkeypatch.setenv("BVH_CACHE_DIR", str(tmp_path / "cache"))
    # Without the user's own folders, which may have notes.
    roots = [tmp_path / "cache"]
    monkeypatch.setattr(kernel_cache, "cache_roots", lambda _: roots)
    parsed: list[bool] = []
    monkeypatch.setattr(kernel_cache, "fingerprint_of", lambda _: parsed.append(True) or "b" * 20)

    def known() -> kernel_cache.KernelVersion:
        return kernel_cache.version_of.__wrapped__(PACKAGE)

    first = known()
    assert first.fingerprint == "b" * 20 and parsed
    folder = KernelFolder(tmp_path / "cache" / ("a" * 20))
    folder.make()
    first.remember(folder)
    assert known() == first
    first._replace(fingerprint="a" * 20).remember(folder)
    parsed.clear()
    assert known() == (first.exact, "a" * 20, True) and not parsed
    folder.path.rename(folder.path.with_name("away"))
    assert known() == first and parsed
    folder.path.with_name("away").rename(folder.path)
    if os.name == "posix":
        for place in (folder.path.parent, folder.path, folder.path / first.note):
            mode = place.stat().st_mode
            place.chmod(mode | 0o022)
            assert known() == first
            place.chmod(mode)
    assert known().fingerprint == "a" * 20
