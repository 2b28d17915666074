"""Times functions in turn, so that a machine's moods fall on all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def interleaved(
    contestants: dict[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Run all contestants once to warm them up, then `rounds` times in turn; return seconds."""
    for call in contestants.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            began = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Return the median time of each contestant."""
    return {name: statistics.median(times) for name, times in seconds.items()}
