"""Interleaved timing: all contestants take turns, so that a busy machine slows all alike."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

Calls = dict[str, Callable[[], object]]
Seconds = dict[str, list[float]]
Clocks = tuple[float, float, float]

# The share of our CPUs that other processes may use before a figure is in doubt.
DISTURBED = 0.05
# Seconds that a measurement takes at least, and the shortest in which use of CPUs is known.
LEAST, JUDGED = 0.5, 0.2
# Seconds to wait for other processes to end before another attempt.
PATIENCE = 30.0


def interleaved(contestants: Calls, rounds: int, least: float = 0.0) -> Seconds:
    """Run all contestants once to warm them up, then in turn; return seconds.

    At least `rounds` times, and for at least `least` seconds.
    """
    for call in contestants.values():
        call()
    seconds: Seconds = {name: [] for name in contestants}
    until = time.perf_counter() + least
    while rounds > 0 or time.perf_counter() < until:
        rounds -= 1
        for name, call in contestants.items():
            began = time.perf_counter()
            result = call()
            seconds[name].append(time.perf_counter() - began)
            # The time to free the result does not count.
            del result
    return seconds


class Patience:
    """Limit, in seconds, on measuring again and on waiting for other processes.

    On a busy machine every figure is disturbed; without a limit a run takes hours there.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def spend(self, since: float) -> None:
        """Subtract the time since a reading of `time.perf_counter`."""
        self.left -= time.perf_counter() - since


def undisturbed(
    contestants: Calls, rounds: int, attempts: int = 3, patience: Patience | None = None
) -> tuple[Seconds, float | None]:
    """Time as `interleaved` does, again if other processes used our CPUs meanwhile.

    Taking turns is not enough on several threads: a busy neighbour slows down a caster that uses
    all CPUs and spares one that uses a single thread. Returned are the seconds of the attempt with
    the least disturbance, and the share of our CPUs that other processes used during it, None where
    it is unknown.
    """
    patience = patience or Patience(math.inf)
    disturbed: list[tuple[float, int, Seconds]] = []
    for attempt in range(attempts):
        began, before = time.perf_counter(), clocks()
        seconds = interleaved(contestants, rounds, LEAST)
        foreign = foreign_share(before, clocks())
        if foreign is None or foreign <= DISTURBED:
            return seconds, foreign
        disturbed.append((foreign, attempt, seconds))
        if attempt:
            patience.spend(began)
        if attempt + 1 == attempts or patience.left <= 0.0:
            break
        began = time.perf_counter()
        _wait_for_calm(min(PATIENCE, patience.left))
        patience.spend(began)
    foreign, _, seconds = min(disturbed)
    return seconds, foreign


def foreign_share(before: Clocks | None, after: Clocks | None) -> float | None:
    """Return the share of our CPUs that others used between two readings of `clocks`."""
    if before is None or after is None:
        return None
    wall, own, busy = (b - a for a, b in zip(before, after, strict=True))
    # The system counts in hundredths of a second.
    cpus = len(os.sched_getaffinity(0))
    return max(0.0, busy - own) / (wall * cpus) if wall > JUDGED else None


def _wait_for_calm(seconds: float) -> None:
    """Wait until others leave our CPUs idle, or for so many seconds."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = clocks()
        time.sleep(0.5)
        if (foreign_share(before, clocks()) or 0.0) <= DISTURBED:
            return


def clocks() -> Clocks | None:
    """Return wall time, CPU time of this process and its ended children, and busy time of our CPUs.

    In seconds; None where the system does not count them.
    """
    try:
        ours = {f"cpu{i}" for i in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    except (OSError, AttributeError):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal
    ticks = sum(
        int(f[i]) for f in lines if f and f[0] in ours for i in (1, 2, 3, 6, 7, 8) if i < len(f)
    )
    children = os.times()
    own = time.process_time() + children.children_user + children.children_system
    return time.perf_counter(), own, ticks / os.sysconf("SC_CLK_TCK")


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan
