"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bvh


def machine() -> dict[str, Any]:
    """Return the processor, versions of all that matters, and the date."""
    versions = {"bvh": bvh.__version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "llvmlite", "open3d", "embreex", "libigl", "rtree", "trimesh"):
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
    """Return the processor's name, as far as the system tells it."""
    try:
        names = [
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
