"""Machine and versions that figures were measured with."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bvh

from .. import peers

# Libraries of ours, and of the benchmarks.
LIBRARIES = (
    "numpy", "numba", "llvmlite", "trimesh", "scipy", "vtk",
    *(peer.distribution for peer in peers.PEERS.values()),
)  # fmt: skip


def machine() -> dict[str, Any]:
    """Return the processor, the versions of libraries and peers, and the date."""
    versions = {"bvh": bvh.__version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def processor() -> str:
    """Return the processor's name, as far as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
