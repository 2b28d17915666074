"""CPUs that this process may use, and how many of them are idle.

Affinity, the quota of its container (cgroup v2), BVH_NUM_THREADS.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
# Times of each CPU: at IDLE and after it those without work.
TIMES, IDLE = Path("/proc/stat"), slice(3, 5)


# More threads than any computer has, and what there is where nothing limits it.
MOST, UNLIMITED = 1 << 16, 1 << 30
# The number of threads that stands for all CPUs of the affinity.
ALL_CPUS = -1


class _Task(threading.local):
    """The threads that each task may use, which runs in a thread of its own; 0 outside of tasks."""

    threads = 0


_task = _Task()


def default_threads() -> int:
    """Return the number of threads where none is given."""
    # That of a task of many (see `task_threads`); BVH_NUM_THREADS, if it is set; otherwise the CPUs
    # of the process's affinity, or as many as its control group (cgroup v2) has time for, if these
    # are fewer. The variable and the quota are read when they are first needed; a ValueError says
    # that the variable is not a number from 1.
    if _task.threads:
        return _task.threads
    wanted, quota = settings()
    if wanted:
        return wanted
    return min(allowed_cpus(), quota)


def allowed_cpus() -> int:
    """Return the number of CPUs of the process's affinity, or of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def task_threads(count: int) -> Iterator[None]:
    """Set the default number of threads for all calls of this thread, during a task."""
    before = _task.threads
    _task.threads = allowed_cpus() if count == ALL_CPUS else count
    try:
        yield
    finally:
        _task.threads = before


@lru_cache(maxsize=1)
def settings() -> tuple[int, int]:
    """Return the value of BVH_NUM_THREADS, 0 without one, and the quota of this process."""
    given = os.environ.get("BVH_NUM_THREADS", "").strip()
    if given and not (given.isdecimal() and len(given) < 10 and 1 <= int(given) <= MOST):
        raise ValueError(f"BVH_NUM_THREADS must be a number from 1 to {MOST}, got {given[:99]!r}")
    return int(given or 0), max(cpu_quota(OWN_CGROUP, CGROUPS), 1)


def cpu_quota(own: Path, mount: Path) -> int:
    """Return how many CPUs a control group has time for, rounded up; a large number for all."""
    # The group and all above it limit: each has a file cpu.max with a quota and a period, both in
    # microseconds.
    least, group = UNLIMITED, _group_of(own, mount)
    while group == mount or mount in group.parents:
        try:
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max" and int(quota) > 0:
                least = min(least, math.ceil(int(quota) / int(period)))
        except (OSError, ValueError, ZeroDivisionError):
            pass
        group = group.parent
    return least


def _group_of(own: Path, mount: Path) -> Path:
    """Return the control group of this process; a path beside all groups if it has none."""
    try:
        # Names of groups are any bytes.
        lines = own.read_text(errors="surrogateescape").splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return mount.parent
    return mount / path.strip().lstrip("/")


def idle_cpus(seconds: float = 0.1) -> float | None:
    """Return how many of the CPUs that this process may use have no work, for a moment.

    It sleeps meanwhile, and returns None if that is unknown. A container's quota that others use
    up is not idle, whatever the computer does.
    """
    if not TIMES.exists():
        return allowed_cpus() - os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    before, used = _times(), _used()
    began = time.monotonic()
    time.sleep(seconds)
    pairs = zip(before, _times(), strict=True)
    spent = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairs]
    if not any(map(sum, spent)):
        # Some sandboxes count nothing.
        return None
    idle = sum(sum(times[IDLE]) / max(sum(times), 1) for times in spent)
    return min(idle, settings()[1] - (_used() - used) / (time.monotonic() - began))


def _times() -> list[list[int]]:
    """Return the times of each CPU of the affinity."""
    own = {f"cpu{k}" for k in os.sched_getaffinity(0)}
    lines = map(str.split, TIMES.read_text().splitlines())
    # Times of guests are within those of users.
    return [[int(x) for x in numbers[:8]] for name, *numbers in lines if name in own]


def _used() -> float:
    """Return the seconds of CPU that the control group has used; 0 if that is unknown."""
    try:
        words = (_group_of(OWN_CGROUP, CGROUPS) / "cpu.stat").read_text().split()
        return int(words[words.index("usage_usec") + 1]) * 1e-6
    except (OSError, ValueError):
        return 0.0
