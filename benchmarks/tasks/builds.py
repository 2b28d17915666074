"""Tasks of builds: time of each quality, peak memory, and bytes of a tree."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bvh

from ..peers import EMBREE, PEERS, available
from ..peers.caster import Caster, Query
from ..processes import Row
from ..scenes import Scene
from .task import Picked, Setting, Task

QUALITIES, COMPACT = ("medium", "high"), "compact"


def builds(setting: Setting) -> Iterator[Task]:
    """Yield the task of building with each quality."""
    mesh = setting.scene
    for quality in QUALITIES:
        ours = partial(
            bvh.BVH.from_triangles, mesh.vertices, mesh.faces, quality=quality,
            threads=setting.threads,
        )  # fmt: skip
        yield Task(
            f"build {quality}", "call", 1, mesh, {"bvh": ours}, lambda ours=ours: ours().validate(),
            partial(rebuild, mesh, tuple(PEERS)),
        )  # fmt: skip


def rebuild(mesh: Scene, names: tuple[str, ...], peer: Caster, picked: Picked) -> Query | None:
    """Return the query that has a peer build the tree of a mesh, which other tasks check."""
    if peer.name not in names:
        return None
    return Query(partial(type(peer), *peer.converted(mesh.vertices, mesh.faces)), lambda tree: None)


def builders(names: list[str] | None) -> list[str]:
    """Return the trees and peers whose memory is measured, each in a process of its own."""
    return [*QUALITIES, COMPACT, *(p.name for p in available(names) if p.name in EMBREE)]


def memory(setting: Setting) -> Iterator[Row]:
    """Yield the peak of one build over the memory before it, which has inputs and libraries."""
    mesh, builder = setting.scene, setting.options["builder"]
    if builder in PEERS:
        peer: Any = PEERS[builder]
        build = partial(peer, *peer.converted(mesh.vertices, mesh.faces))
        peer.of_mesh(np.eye(3), np.array([[0, 1, 2]]))
    else:
        how = {"memory": builder} if builder == COMPACT else {"quality": builder}
        ours: Any = partial(bvh.BVH.from_triangles, **how, threads=setting.threads)
        build = partial(ours, mesh.vertices, mesh.faces)
        # Compile or load the kernels, and start the threads.
        ours(mesh.vertices, mesh.faces[:20_000])
    before = _start()
    tree = build()
    peak, kept = _status("VmHWM") - before, _status("VmRSS") - before
    count = len(mesh.faces)
    parts = {"peak MiB": peak / 2**20, "B/triangle": peak / count, "kept MiB": kept / 2**20}
    if builder not in PEERS:
        tree.validate()
        parts["tree B/triangle"] = tree.stats().bytes / count
    yield {"mesh": mesh.name, "triangles": count, "what": builder, "table": "memory of a build",
           "parts": parts}  # fmt: skip


def _start() -> int:
    """Reset the peak of memory; return the bytes in use now."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise SystemExit(f"this system cannot reset a process's peak of memory: {error}") from None
    return _status("VmRSS")


def peak() -> int:
    """Return the largest size that this process has had in memory, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    """Return a size of this process in bytes, as the system counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
