"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bvh

from . import peers

# What our own answers are made with, or measured by.
OURS = ("numpy", "numba", "llvmlite", "trimesh", "scipy", "vtk")


def machine() -> dict[str, Any]:
    """Return the processor, versions of all that matters, and the date."""
    versions = {"bvh": bvh.__version__, "python": platform.python_version()}
    for name in OURS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for peer in peers.PEERS.values():
        told = peers.version(peer)
        if told is not None:
            versions[peer.distribution] = told
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
