"""Parameters of which ordinary runs take a share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def shared(names: Sequence[str], every: int) -> list[Any]:
    """Return parameters of a test, of which every few are ordinary and the others `long`."""
    return [
        pytest.param(name, marks=pytest.mark.long) if place % every else name
        for place, name in enumerate(names)
    ]
