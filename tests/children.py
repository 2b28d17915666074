"""Scripts run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import bvh

PACKAGE = Path(bvh.__file__).parent
# Python 3.12 and newer advise against forks of processes that have threads; what becomes of them is
# what some scripts show.
FORKS = "ignore:This process:DeprecationWarning"


def start(script: str, package: Path = PACKAGE, **settings: Any) -> subprocess.Popen[str]:
    """Run a script in a process of its own, with changes of the environment (None removes)."""
    usual = {"PYTHONPATH": package.parent, "PYTHONDONTWRITEBYTECODE": 1, "PYTHONWARNINGS": FORKS}
    settings = usual | settings
    changed = {name: str(value) for name, value in settings.items() if value is not None}
    env = {k: v for k, v in os.environ.items() if k not in settings} | changed
    return subprocess.Popen(
        [sys.executable, "-P", "-c", script], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a script printed as JSON; it must not have complained."""
    try:
        output, errors = process.communicate(timeout=900)
    except BaseException:
        process.kill()
        raise
    # Pytest shows no values of an assertion in a module that is none of its tests.
    assert (process.returncode, errors) == (0, ""), errors
    return json.loads(output)
