"""CPUs that this process may use: affinity, the quota of its container, BVH_NUM_THREADS."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from pathlib import Path

CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def default_threads() -> int:
    """Return the number of threads where none is given.

    BVH_NUM_THREADS, if it is set; otherwise the CPUs of the process's affinity, or as many as its
    control group (cgroup v2) has time for, if these are fewer.

    Raises
    ------
    ValueError
        If BVH_NUM_THREADS is not a number of at least 1.
    """
    given = os.environ.get("BVH_NUM_THREADS", "").strip()
    if given:
        if not given.isdecimal() or int(given) < 1:
            raise ValueError(f"BVH_NUM_THREADS must be a number of at least 1, got {given!r}")
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    return max(min(cpus, cpu_quota(OWN_CGROUP, CGROUPS)), 1)


@lru_cache(maxsize=1)
def cpu_quota(own: Path, mount: Path) -> int:
    """Return how many CPUs a control group has time for, rounded up; a large number for all.

    The group and all above it limit: each has a file cpu.max with a quota and a period, both in
    microseconds.
    """
    least = 1 << 30
    try:
        lines = own.read_text().splitlines()
        path = next(line[3:] for line in lines if line.startswith("0::"))
    except (OSError, StopIteration):
        return least
    group = mount / path.strip().lstrip("/")
    while group == mount or mount in group.parents:
        try:
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max":
                least = min(least, math.ceil(int(quota) / int(period)))
        except (OSError, ValueError, ZeroDivisionError):
            pass
        group = group.parent
    return least
