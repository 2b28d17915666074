"""Without PyTorch or JAX: errors that say what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_missing_library_is_named(name: str) -> None:
    program = f"""
import sys
sys.modules["{name}"] = None
import bvh
assert not {{"torch", "jax"}} & {{key for key, module in sys.modules.items() if module}}
try:
    bvh.{name}
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"pip install {name}" in done.stdout, done.stderr
