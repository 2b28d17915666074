"""CPUs that this process may use: affinity, the quota of its container, BVH_NUM_THREADS."""

import contextlib
import math
import os
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

# The largest BVH_NUM_THREADS; the quota of a process that has none.
MOST, UNLIMITED = 1 << 16, 1 << 30
# The number of threads that stands for all CPUs of the affinity.
ALL_CPUS = -1


# Its `threads` is the default number that `task_threads` has set for this thread, if any.
_task = threading.local()


def default_threads() -> int:
    """Return the number of threads where none is given.

    Inside `task_threads`, its number; elsewhere BVH_NUM_THREADS, if it is set; otherwise the number
    of CPUs of the process's affinity, or the CPU quota of its control group (cgroup v2) if that is
    lower. The variable and the quota are read when they are first needed; a ValueError is raised if
    the variable is not a number from 1 to `MOST`.
    """
    if count := getattr(_task, "threads", 0):
        return int(count)
    chosen, quota = settings()
    return chosen or min(allowed_cpus(), quota)


def allowed_cpus() -> int:
    """Return the number of CPUs of the process's affinity, or of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def task_threads(count: int) -> Iterator[None]:
    """Set the default number of threads for calls from this thread in a block.

    `count` is at least 1, or ALL_CPUS.
    """
    before = getattr(_task, "threads", 0)
    _task.threads = allowed_cpus() if count == ALL_CPUS else count
    try:
        yield
    finally:
        _task.threads = before


@lru_cache(maxsize=1)
def settings() -> tuple[int, int]:
    """Return (BVH_NUM_THREADS, 0 if it is not set; the CPU quota of this process, at least 1)."""
    given = os.environ.get("BVH_NUM_THREADS", "").strip()
    if given and not (given.isdecimal() and len(given) < 10 and 1 <= int(given) <= MOST):
        raise ValueError(f"BVH_NUM_THREADS must be a number from 1 to {MOST}, got {given[:99]!r}")
    return int(given or 0), max(cpu_quota(OWN_CGROUP, CGROUPS), 1)


def cpu_quota(membership: Path, mount: Path) -> int:
    """Return the number of CPUs, rounded up, of this process's control group, or `UNLIMITED`.

    `membership` is the file that names the group, as /proc/self/cgroup, and `mount` the folder of
    all groups, as /sys/fs/cgroup.
    """
    try:
        # The line of cgroup v2 begins with "0::". Names of groups may have any bytes.
        lines = membership.read_text(errors="surrogateescape").splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return UNLIMITED
    # The group and each one above it may have a limit, in a file cpu.max: a quota and a period, in
    # microseconds. The quota "max" is no limit.
    least, group = UNLIMITED, mount / path.strip().lstrip("/")
    while group == mount or mount in group.parents:
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max" and int(quota) > 0:
                least = min(least, math.ceil(int(quota) / int(period)))
        group = group.parent
    return least
