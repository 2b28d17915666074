"""Tasks of clusters: rays on two processes beside two threads, and the cost of tasks and bytes.

The cluster is Dask's, of two processes of one thread each on this machine. Bytes are those that
scheduler, client and workers write to their connections, counted where they are written.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bvh

from ..processes import Row
from ..timing import clocks, foreign_share
from ..workloads import Workload
from .task import Setting
from .validation import against_brute_force

RAYS, TILE, BLOCK = 20_000_000, 2048, 512
# Chunks of the map that does nothing, bytes that are sent, and seconds between looks at memory.
CHUNKS, BYTES, LOOK = 4000, 1 << 26, 0.1

# Rays reduced block by block on two processes, as Dask arrays there, and on two threads.
REDUCED, ARRAYS, THREADS = "bvh", "bvh, as arrays", "bvh, two threads"

# Bytes that this process has written to connections.
written = [0]


def cluster_rays(setting: Setting) -> Iterator[Row]:
    """Yield the rate of camera rays on two processes and on two threads, interleaved."""
    import dask
    import dask.array as da

    tree, mesh, rounds = setting.tree, setting.scene, setting.options["rounds"]
    side = int((setting.options["rays"] or RAYS) ** 0.5)
    tile = min(TILE, -(-side // 4))
    camera = bvh.Camera.framing(tree.bounds, width=side, height=side, fill=0.94)
    tiles = list(product(range(0, side, tile), repeat=2))

    def cast(begin: tuple[int, int]) -> tuple[int, float]:
        y, x = (np.arange(b, min(b + BLOCK, side)) + 0.5 for b in begin)
        hits = tree.closest_hit(camera.eye, camera.ray(x, y[:, None])[1], threads=1)
        return int(hits.mask.sum()), float(np.where(hits.mask, hits.t, 0.0).sum())

    def on_threads() -> tuple[int, float]:
        # Blocks that stay in a CPU's caches: the best that threads can do.
        with ThreadPoolExecutor(2) as pool:
            blocks = product(range(0, side, BLOCK), repeat=2)
            counts, sums = zip(*pool.map(cast, blocks), strict=True)
        return sum(counts), sum(sums)

    def rays() -> Any:
        return bvh.distributed.camera_rays(camera, tile)

    def reduced() -> tuple[int, float]:
        found = rays().reduce(tree, _count_and_sum).compute()
        return int(found[0]), float(found[1])

    def as_arrays() -> tuple[int, float]:
        hits = rays().closest_hit(tree)
        found: Any = dask.compute(hits.mask.sum(), da.where(hits.mask, hits.t, 0.0).sum())
        return int(found[0]), float(found[1])

    ways = {THREADS: on_threads, REDUCED: reduced, ARRAYS: as_arrays}
    sample = np.random.default_rng(0).integers(0, side, (400, 2)) + 0.5
    o, d = camera.ray(*sample.T)
    against_brute_force(tree, Workload("cluster", "closest_hit", np.broadcast_to(o, d.shape), d))
    with cluster(2) as client:
        count_bytes()
        client.run(count_bytes)
        client.register_plugin(bvh.distributed.KernelPlugin(["builders", "trees and queries"]))
        pids = {"scheduler": [os.getpid()], "worker": list(client.run(os.getpid).values())}
        began = time.perf_counter()
        graph = len(dict(rays().closest_hit(tree).t.__dask_graph__()))
        planned, sent = time.perf_counter() - began, _sent(client)
        right, firsts = on_threads(), list[int]()
        for call in (as_arrays, reduced):
            found = call()
            if found[0] != right[0] or abs(found[1] - right[1]) > 1e-10 * abs(right[1]):
                raise SystemExit(f"wrong answer: {right} on threads, {found} on processes")
            firsts.append(_sent(client) - sent)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        wire, memory, before = dict.fromkeys(ways, 0), Memory(pids), _clocks(client)
        for _ in range(rounds):
            for name, call in ways.items():
                sent, began = _sent(client), time.perf_counter()
                with memory if name != THREADS else _nothing():
                    if call()[0] != right[0]:
                        raise SystemExit("wrong answer: another count of hits")
                seconds[name].append(time.perf_counter() - began)
                wire[name] += _sent(client) - sent
        foreign = foreign_share(before, _clocks(client))
    middle = {name: statistics.median(turns) for name, turns in seconds.items()}
    common = {"mesh": mesh.name, "triangles": len(mesh.faces), "unit": "ray", "count": side * side}
    yield {
        **common, "what": "camera rays", "table": "rays on two processes", "foreign": foreign,
        "seconds": seconds, "parts": {
            "Mray": 1e-6 * side * side, "Mray/s": 1e-6 * side * side / middle[REDUCED],
            "on threads": 1e-6 * side * side / middle[THREADS],
            "ratio": middle[THREADS] / middle[REDUCED],
            "arrays' ratio": middle[THREADS] / middle[ARRAYS],
            "B/ray": wire[REDUCED] / rounds / side**2,
            "arrays' B/ray": wire[ARRAYS] / rounds / side**2,
            **memory.figures(),
        },
    }  # fmt: skip
    yield {
        **common, "what": f"{len(tiles)} tiles", "table": "graph of camera rays", "parts": {
            "tasks": graph, "build ms": 1e3 * planned, "tree MB": 1e-6 * tree.stats().bytes,
            "MB sent at first": 1e-6 * firsts[0], "MB sent later": 1e-6 * wire[ARRAYS] / rounds,
        },
    }  # fmt: skip


def _count_and_sum(hits: Any, *place: slice) -> NDArray[np.float64]:
    """Return the number of hits and the sum of their t."""
    return np.array([hits.mask.sum(), np.where(hits.mask, hits.t, 0.0).sum()], np.float64)


def cluster_costs(setting: Setting) -> Iterator[Row]:
    """Yield the cost of a task, a reduction and a byte, and the wait for a cold worker."""
    import dask.array as da
    from distributed import wait

    chunks, size = (CHUNKS, BYTES) if not setting.options["quick"] else (100, 1 << 20)
    rounds, found = setting.options["rounds"], {}
    with cluster(2) as client:
        one, two = sorted(client.scheduler_info()["workers"])

        def mapped() -> Any:
            return da.map_blocks(_ones, chunks=((1,) * chunks,), dtype=np.int64)

        def moved(count: int) -> int:
            data = client.submit(np.ones, count, np.uint8, workers=[one], pure=False)
            data = client.submit(np.array, data, workers=[one], pure=False)
            asked = client.submit(lambda: 0, workers=[two], pure=False)
            client.gather([client.submit(len, data, workers=[one], pure=False), asked])
            began = time.perf_counter()
            length = client.submit(len, data, workers=[two], pure=False).result()
            moving.append(time.perf_counter() - began)
            return int(length)

        moving: list[float] = []
        steps: dict[str, Callable[[], Any]] = {
            "map": lambda: len(wait(mapped().persist())[0]),
            "sum": lambda: int(mapped().sum().compute()),
            "small": lambda: moved(1), "large": lambda: moved(size),
        }  # fmt: skip
        wanted = {"map": chunks, "sum": chunks, "small": 1, "large": size}
        times: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(rounds + 1):
            for name, step in steps.items():
                began = time.perf_counter()
                if step() != wanted[name]:
                    raise SystemExit(f"wrong answer: {name}")
                spent = moving[-1] if name in ("small", "large") else time.perf_counter() - began
                times[name] += [spent] * bool(turn)
        middle = {name: statistics.median(turns) for name, turns in times.items()}
    found["a task, us"] = 1e6 * middle["map"] / chunks
    found["a chunk mapped and summed, us"] = 1e6 * middle["sum"] / chunks
    found["a message, us"] = 1e6 * middle["small"]
    found["a byte, ns"] = 1e9 * (middle["large"] - middle["small"]) / size
    yield {"mesh": "", "what": "medians", "table": "costs of a cluster", "parts": found}
    for what, plugin in (("first task", False), ("first task, KernelPlugin", True)):
        with TemporaryDirectory() as folder:
            # The first worker compiles, the second loads what it has compiled.
            caches = {"compiled": folder, "loaded": folder}
            if setting.options["quick"]:
                caches = {"loaded": os.environ.get("BVH_CACHE_DIR", "")}
            parts = {
                f"{name}: {part}": spent
                for name, cache in caches.items()
                for part, spent in _first_task(plugin, cache).items()
            }
        yield {"mesh": "", "what": what, "table": "seconds of a cold worker", "parts": parts}


def _first_task(plugin: bool, cache: str) -> dict[str, float]:
    """Return the seconds of a new worker's plugin, first task and second task."""
    spent = {"plugin": 0.0}
    with cluster(1, **({"BVH_CACHE_DIR": cache} if cache else {})) as client:
        client.submit(len, "any").result()
        if plugin:
            began = time.perf_counter()
            client.register_plugin(bvh.distributed.KernelPlugin(["builders", "trees and queries"]))
            spent["plugin"] = time.perf_counter() - began
        for name in ("first", "second"):
            began = time.perf_counter()
            if client.submit(_look, pure=False).result() != 1.0:
                raise SystemExit("wrong answer: the triangle is missed")
            spent[name] = time.perf_counter() - began
    return spent


def _look() -> float:
    """Build a tree of a triangle, and cast a batch of rays at it."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    hits = tree.closest_hit(np.zeros((64, 3)), np.full(3, 1 / 3), threads=1)
    return float(hits.t.max())


def _ones() -> Any:
    return np.ones(1, np.int64)


@contextmanager
def cluster(workers: int, **settings: str) -> Iterator[Any]:
    """Start processes of one thread each, and yield a client that computes on them."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise SystemExit('clusters need distributed: pip install "raybvh[dask]"') from None
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, env=settings,
                     dashboard_address=None) as made,
        Client(made) as client,
    ):  # fmt: skip
        yield client


def count_bytes() -> None:
    """Count from now on what this process writes to connections."""
    from distributed.comm.tcp import TCP

    original = TCP.write

    async def write(self: Any, *arguments: Any, **options: Any) -> Any:
        count = await original(self, *arguments, **options)
        written[0] += count
        return count

    TCP.write = write


def _sent(client: Any) -> int:
    """Return the bytes that all processes have written."""
    # A lambda would take this process's count along.
    return _written() + sum(client.run(_written).values())


def _written() -> int:
    return written[0]


def _clocks(client: Any) -> Any:
    """Return `clocks`, with the CPU time of the workers as our own."""
    own = sum(client.run(time.process_time).values())
    found = clocks()
    return found and (found[0], found[1] + own, found[2])


@contextmanager
def _nothing() -> Iterator[None]:
    yield


class Memory:
    """Resident memory of processes, sampled while it is entered."""

    def __init__(self, pids: dict[str, list[int]]) -> None:
        self._pids, self._end = pids, threading.Event()
        self._bytes: dict[int, list[int]] = {pid: [] for some in pids.values() for pid in some}

    def __enter__(self) -> None:
        self._end.clear()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        """Sample the memory of all processes every LOOK seconds, until `_end` is set."""
        page = os.sysconf("SC_PAGE_SIZE")
        ended = False
        while not ended:
            ended = self._end.wait(LOOK)
            for pid, sizes in self._bytes.items():
                sizes.append(page * int(Path(f"/proc/{pid}/statm").read_text().split()[1]))

    def figures(self) -> dict[str, float]:
        """Return the peak, and by how much the last third of the time exceeds the middle one."""
        found = {}
        for name, pids in self._pids.items():
            columns = [np.array(self._bytes[pid] or [0]) * 1e-6 for pid in pids]
            thirds = [np.array_split(column, 3) for column in columns]
            found[f"{name} MB"] = max(float(column.max()) for column in columns)
            found[f"{name} growth"] = max(
                float(last.max(initial=0.0) - middle.max(initial=0.0)) for _, middle, last in thirds
            )
        return found
