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


def start(script: str, package: Path = PACKAGE, **settings: Any) -> subprocess.Popen[str]:
    """Run a script in a process of its own, with changes of the environment (None removes)."""
    settings = {"PYTHONPATH": package.parent, "PYTHONDONTWRITEBYTECODE": 1} | settings
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
    assert (process.returncode, errors) == (0, "")
    return json.loads(output)
