"""The sources that a cached kernel depends on: all of them, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

import bvh
from bvh.kernel_sources import kernel_sources

PACKAGE = Path(bvh.__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of the same name with one kernel, its helper, and files that compile nothing."""
    root = tmp_path / "bvh"
    (root / "sub").mkdir(parents=True)
    texts = {
        "__init__.py": "from bvh.command import run\n",
        "jit.py": "import numba\n",
        "kernel.py": "from bvh.jit import (\n    entry,  # compiles\n    kernel,\n)\n"
        "from bvh.sub import (\n    helper,  # (slow)\n    other,\n)\n",
        "sub/__init__.py": "",
        "sub/helper.py": "def late():\n    from bvh.constant import C\n",
        "sub/other.py": "",
        "constant.py": "C = 3\n",
        "fields.py": "from typing import NamedTuple\n",
        "command.py": "import bvh\nfrom bvh.jit import BVHWarning, warmup\n"
        "from bvh import kernel\n",
        "whole.py": "from bvh import jit\n",
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    return root


def test_kernels_and_all_they_import(package: Path) -> None:
    found = {path.relative_to(package).as_posix() for path in kernel_sources(package)}
    helpers = {"sub/helper.py", "sub/other.py", "constant.py"}
    assert found == {"jit.py", "kernel.py", "fields.py", "whole.py"} | helpers


def test_commands_are_not_part_of_kernels() -> None:
    found = {path.relative_to(PACKAGE).as_posix() for path in kernel_sources(PACKAGE)}
    assert not found & {"__init__.py", "commands/cli.py", "pictures/shading.py"}
    # Whatever compiles something is there.
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if any(f"\n@{name}\n" in text for name in ("entry", "kernel", "inlined")):
            name = path.relative_to(PACKAGE).as_posix()
            assert name in found or name.startswith("examples/"), name
