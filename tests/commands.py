"""Common parts of tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

# Runs the command in the test's folder; returns (exit code, out, err).
Run = Callable[..., tuple[int, str, str]]


def strict_json(text: str) -> Any:
    """Read JSON; refuse NaN and infinity, which Python alone takes for it."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
