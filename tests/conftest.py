"""Seeds: fixed in ordinary runs, fresh when BVH_FUZZ_SEED says so, printed on failure."""

from __future__ import annotations

import os
import zlib

import numpy as np
import pytest


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """Return a seed of the test's own; pytest shows the printed line when the test fails."""
    base = int(os.environ.get("BVH_FUZZ_SEED", "20261121"))
    value = base ^ zlib.crc32(request.node.nodeid.encode())
    print(f"seed {value} (BVH_FUZZ_SEED={base})")
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """Return a random generator of the test's own."""
    return np.random.default_rng(seed)
