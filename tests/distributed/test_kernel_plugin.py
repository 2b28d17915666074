"""Kernels of workers: shared by all that start cold, wherever their home is."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bvh.runtime.compiler import kernel_cache
from tests.children import answer, fork, start

distributed = pytest.importorskip("distributed")
kernel_plugin = pytest.importorskip("bvh.distributed.kernel_plugin")
KernelPlugin = kernel_plugin.KernelPlugin
keep_freed_memory = kernel_plugin.keep_freed_memory

# Windows ends a process at any signal.
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)

# What is compiled fastest.
SMALLEST = "extents"

COLD = f"""
import asyncio, json
from types import SimpleNamespace
import warnings
warnings.simplefilter("ignore")
from bvh.distributed import KernelPlugin
from bvh.runtime.compiler import kernel_cache
plugin = KernelPlugin([{SMALLEST!r}])
kernel_cache.notice.silence()
asyncio.run(plugin.setup(SimpleNamespace(address="here")))
folder = str(kernel_cache.cache_directory())
print(json.dumps(vars(kernel_cache.tally) | {{"folder": folder}}))
"""


def tally() -> tuple[int, dict[str, int]]:
    """Return this process, and how many kernels it has compiled and loaded."""
    return os.getpid(), vars(kernel_cache.tally)


@pytest.mark.long
def test_a_cold_cluster(tmp_path: Path) -> None:
    """Workers compile what is not there yet; one that is started again loads all kernels."""
    settings = {"BVH_CACHE_DIR": str(tmp_path / "cache"), "BVH_KERNELS": "off"}
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, env=settings
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(KernelPlugin(SMALLEST))
        found = dict(client.run(tally).values())
        (folder,) = (tmp_path / "cache").iterdir()
        count = len(list(folder.glob("bvh.*")))
        assert count > 1 and sum(worker["compiled"] for worker in found.values()) >= count
        assert all(worker["compiled"] + worker["loaded"] == count for worker in found.values())
        killed = min(found)
        os.kill(killed, KILL)
        deadline = time.monotonic() + 120.0
        while time.monotonic() < deadline:
            # A worker that has just died may still be asked.
            later: dict[Any, Any] = client.run(tally, on_error="ignore")
            again = {pid: worker for pid, worker in later.values() if pid not in found}
            if again:
                break
            time.sleep(0.05)
        assert list(again.values()) == [{"compiled": 0, "loaded": count}]


@pytest.mark.long
def test_homes_that_cannot_be_written_to(tmp_path: Path) -> None:
    """Kernels are kept in a temporary folder, which the workers of a machine share."""
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    unusable = str(tmp_path / "file" / "below")
    settings: dict[str, Any] = {
        "HOME": unusable, "XDG_CACHE_HOME": unusable, "LOCALAPPDATA": unusable,
        "TMPDIR": tmp_path / "temporary", "BVH_KERNELS": "off",
    }  # fmt: skip
    children = [fork(COLD, **settings, BVH_CACHE_DIR=given) for given in (None, unusable)]
    found = [answer(child) for child in children]
    (folder,) = {worker["folder"] for worker in found}
    assert Path(folder).parent.parent == tmp_path / "temporary"
    count = len(list(Path(folder).glob("bvh.*")))
    assert sum(worker["compiled"] for worker in found) >= count
    assert all(worker["compiled"] + worker["loaded"] == count for worker in found)


def test_parts_that_there_are_not(cluster: Any) -> None:
    """Here, or on a worker of another version; its error is raised here."""
    with pytest.raises(ValueError, match=r"parts must be of .*extents.*, got 'nothing'"):
        KernelPlugin(["nothing"])
    with pytest.raises(TypeError, match="parts must be names of kernels, got int"):
        KernelPlugin(5)
    plugin = KernelPlugin([SMALLEST])
    plugin._parts = ["nothing"]
    with pytest.raises(ValueError, match=r"bvh on tcp://.* has no kernels called 'nothing'"):
        cluster.register_plugin(plugin)
    (status,) = {done["status"] for done in cluster.register_plugin(KernelPlugin([])).values()}
    assert status == "OK"


def test_all_parts_by_default() -> None:
    assert SMALLEST in KernelPlugin()._parts and len(KernelPlugin()._parts) > 20
    assert KernelPlugin(SMALLEST)._parts == KernelPlugin((SMALLEST,))._parts == [SMALLEST]
    asyncio.run(KernelPlugin([]).setup(SimpleNamespace(address="here")))


# The pages that the operating system clears for arrays that are made and freed, again and again.
PAGES = """
import json, resource
import numpy as np
from bvh.distributed.kernel_plugin import keep_freed_memory
kept = keep_freed_memory({size})
faults = []
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(100_000)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(json.dumps({{"kept": kept, "faults": faults[1]}}))
"""


@pytest.mark.long
def test_freed_memory_is_kept_where_a_nanny_would_have_it_returned() -> None:
    assert not keep_freed_memory(0)
    trimmed = {"MALLOC_TRIM_THRESHOLD_": 65536}
    by_nanny = answer(start(PAGES.format(size=0), **trimmed))
    kept = answer(start(PAGES.format(size=1 << 28), **trimmed))
    alone = answer(fork(PAGES.format(size=1 << 28), MALLOC_TRIM_THRESHOLD_=None))
    assert not by_nanny["kept"] and not alone["kept"]
    if kept["kept"]:
        assert by_nanny["faults"] > 20 * 150 > 20 * 10 > kept["faults"]
    with pytest.raises(ValueError, match="keep_memory must be a number of bytes"):
        KernelPlugin([], keep_memory="much")
