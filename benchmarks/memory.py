"""`python -m benchmarks.memory`: memory that a build takes at its peak, and that a tree keeps."""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bvh

from . import peers
from .builds import qualities
from .machine import machine
from .processes import Row, answer_parent, rows_of
from .scenes import load

# 1 104 500 triangles.
MESH = "organic-235"


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the peak of one build over what the process held before it: inputs and libraries."""
    scene = load(options["mesh"])
    vertices, faces, builder = scene.vertices, scene.faces, options["builder"]
    row = {"mesh": scene.name, "triangles": len(faces), "builder": builder,
           "threads": options["threads"]}  # fmt: skip
    if builder in peers.PEERS:
        make = peers.PEERS[builder]
        given = make.given(vertices, faces)
        make(*make.given(np.eye(3), np.array([[0, 1, 2]])))
        before = _start()
        kept: Any = make(*given)
        yield {**row, "peak": _status("VmHWM") - before, "kept": _status("VmRSS") - before}
        del kept
        return
    # Have the kernels compiled or loaded, and the threads started.
    small = min(len(faces), 20_000)
    warm = {"quality": builder, "threads": options["threads"]}
    bvh.BVH.from_triangles(vertices, faces[:small], **warm)
    before = _start()
    tree = bvh.BVH.from_triangles(vertices, faces, **warm)
    peak, held = _status("VmHWM"), _status("VmRSS")
    yield {**row, "peak": peak - before, "kept": held - before, "tree": tree_bytes(tree)}


def tree_bytes(tree: bvh.BVH) -> int:
    """Return the bytes of a tree's arrays, each counted once, without the vertices."""
    vertices = tree.vertices
    arrays = {
        (array.__array_interface__["data"][0], array.nbytes)
        for array in _flat(tree.arrays)
        if not np.shares_memory(array, vertices)
    }
    return sum(size for _, size in arrays)


def _flat(arrays: Any) -> Iterator[np.ndarray]:
    if isinstance(arrays, np.ndarray):
        yield arrays
    elif isinstance(arrays, tuple | list):
        for item in arrays:
            yield from _flat(item)


def _start() -> int:
    """Forget the peak so far; return the bytes held now."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise SystemExit(f"this system cannot reset a process's peak of memory: {error}") from None
    return _status("VmRSS")


def _status(name: str) -> int:
    """Return a size of this process in bytes, as the system counts it."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise SystemExit(f"no {name} in the process's status")


def main() -> None:
    """Measure each builder in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("mesh", nargs="?", default=MESH)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    print(f"{'':<16} {'peak MiB':>9} {'B/triangle':>11} {'kept MiB':>9} {'tree B/triangle':>16}")
    for builder in [*qualities(), *(peer.name for peer in peers.found(peers.EMBREE))]:
        task = {"mesh": options.mesh, "builder": builder}
        for row in rows_of("memory", task, options.threads):
            rows.append(row)
            n = row["triangles"]
            tree = f"{row['tree'] / n:.1f}" if "tree" in row else "-"
            print(f"{builder:<16} {row['peak'] / 2**20:>9.1f} {row['peak'] / n:>11.1f} "
                  f"{row['kept'] / 2**20:>9.1f} {tree:>16}", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps({**machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    import sys

    # A child gets its task as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
