"""The drop-in for trimesh, installed for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import bvh.compat.trimesh as drop_in


@pytest.fixture
def installed() -> Iterator[None]:
    """Install the drop-in for a test."""
    with drop_in.install():
        yield
