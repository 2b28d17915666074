"""The choice of a library of linked kernels, and cases without one."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.runtime.cache import kernel_sources as sources_of_kernels
from bvh.runtime.cache.kernel_sources import PACKAGE, by_bytes, by_syntax, kernel_sources
from bvh.runtime.calls import linked
from bvh.runtime.compiler.cpu_levels import chosen_target, natural_width

ENTRY = "bvh.io.untrusted._survey"
SOURCE = "void bvh_survey(long long *words) { words[2] = 7 * words[3]; }"

Written = Callable[..., None]


@pytest.fixture
def written(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Return a function that writes a library of one kernel, and a manifest with changes."""
    target = chosen_target()
    code = tmp_path / "kernel.c"
    code.write_text(SOURCE)
    library = tmp_path / f"{target.level}{linked.SUFFIX}"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, code], check=True)
    # A few stand for all, whose syntax takes a while to read.
    sources = dict([*kernel_sources(PACKAGE).items()][:10])
    manifest = {
        "version": bvh.__version__, "width": natural_width(target),
        "sources": [*sources], "bytes": by_bytes(sources), "syntax": by_syntax(sources),
        "kernels": {ENTRY: {"i8": ["bvh_survey", ["i8"], False]}}, "methods": {},
    }  # fmt: skip
    monkeypatch.setattr(linked, "LIBRARIES", tmp_path)
    monkeypatch.delenv("BVH_KERNELS", raising=False)

    def write(**changes: Any) -> None:
        (tmp_path / f"{target.level}.json").write_text(json.dumps(manifest | changes))
        linked._library.cache_clear()

    write()
    yield write
    linked._library.cache_clear()


def assert_unused(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Assert that the library is not used, and that who wants it is told why."""
    assert linked.linked_kernel(ENTRY, "i8") is None
    monkeypatch.setenv("BVH_KERNELS", "linked")
    linked._library.cache_clear()
    with pytest.raises(ValueError, match=f"BVH_KERNELS=linked: .*{reason}"):
        linked.linked_kernel(ENTRY, "i8")


def test_a_kernel_is_found_by_entry_and_structure(written: Written) -> None:
    found = linked.linked_kernel(ENTRY, "i8")
    assert found is not None and found.results == ("i8",) and not found.in_tuple
    words = np.array([0, 0, 0, 6], np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_int64)(found.address)(words.ctypes.data)
    assert words[2] == 42
    assert linked.linked_kernel(ENTRY, "f8") is None
    assert linked.linked_kernel("bvh.tree.build.other", "i8") is None


def test_kernels_can_be_compiled_all_the_same(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BVH_KERNELS", "off")
    assert linked.linked_kernel(ENTRY, "i8") is None
    monkeypatch.setenv("BVH_KERNELS", "/opt/kernels")
    linked._library.cache_clear()
    with pytest.raises(ValueError, match="BVH_KERNELS must be off or linked, got '/opt/kernels'"):
        linked.linked_kernel(ENTRY, "i8")


def test_another_width(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written(width=32)
    assert_unused(monkeypatch, "BVH_WIDTH=32")


def test_other_sources(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments may differ, not the syntax; of a file that is gone nothing is known."""
    written(bytes="0" * 20)
    assert linked.linked_kernel(ENTRY, "i8") is not None
    written(bytes="0" * 20, syntax="0" * 20)
    assert_unused(monkeypatch, "made of other sources")


def test_a_source_is_missing(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written(sources=[*kernel_sources(PACKAGE), "tree/gone.py"])
    assert_unused(monkeypatch, "gone.py")


def test_sources_that_were_edited(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the import: the functions of this process are not what they say."""
    monkeypatch.setattr(sources_of_kernels, "IMPORTED", 0.0)
    assert_unused(monkeypatch, "made of other sources")


def test_a_frozen_program(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any sources the version tells."""
    written(sources=["tree/gone.py"])
    assert linked.linked_kernel(ENTRY, "i8") is not None
    written(sources=["tree/gone.py"], version="0.0.1")
    assert_unused(monkeypatch, "made of other sources")


def test_no_library(written: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No manifest, or a file that cannot be loaded."""
    (tmp_path / f"{chosen_target().level}{linked.SUFFIX}").write_bytes(b"no library")
    assert_unused(monkeypatch, chosen_target().level)
    (tmp_path / f"{chosen_target().level}.json").unlink()
    linked._library.cache_clear()
    with pytest.raises(ValueError, match="BVH_KERNELS=linked"):
        linked.linked_kernel(ENTRY, "i8")
