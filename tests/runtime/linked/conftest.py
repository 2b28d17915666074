"""A library of all kernels, linked as `.ci/link` does for wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bvh.runtime.calls.linked import SUFFIX
from bvh.runtime.compiler.cpu_levels import LEVELS, chosen_target

ROOT = Path(__file__).parents[3]
TRIPLE = "{}-unknown-linux-gnu"


@pytest.fixture(scope="session")
def compiler() -> str:
    """Return a compiler of C, which also links."""
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None or sys.platform != "linux":
        pytest.skip("needs a compiler of C on Linux")
    return found


@pytest.fixture(scope="session")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the library of this level, its object, its manifest and its header."""
    target, folder = chosen_target(), tmp_path_factory.mktemp("linked")
    if target.level not in LEVELS or not (ROOT / ".ci" / "objects.py").exists():
        pytest.skip("needs a level of CPUs, and the repository")
    triple = TRIPLE.format(LEVELS[target.level].architecture)
    command = [sys.executable, ".ci/objects.py", target.level, str(folder), triple]
    subprocess.run(command, cwd=ROOT, check=True)
    (folder / f"{target.level}-{triple}.o").rename(folder / "kernels.o")
    made = ["-o", str(folder / f"{target.level}{SUFFIX}"), str(folder / "kernels.o")]
    subprocess.run([compiler, "-shared", "-s", *made, "-lm"], check=True)
    return folder
