"""Schedulers of Dask: threads, this thread alone, and a cluster of two processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from bvh.distributed.out_of_core import mesh_windows, partitioning


@pytest.fixture(autouse=True)
def _unsynchronized(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the disk: parts are many files, and what is lost without power is not
    what these tests are about.
    """
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parts of at most 100 triangles, read in windows of 64."""
    monkeypatch.setattr(partitioning, "BUILD_BYTES", partitioning.SMALLEST_MEMORY // 100)
    monkeypatch.setattr(mesh_windows, "WINDOW", 64)
    monkeypatch.setattr(partitioning, "WINDOW", 64)


# Ended with the tests of this folder: its threads would be seen by tests of memory.
@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """Two worker processes on the loopback, and a client that is the default scheduler."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["sync", "threads", pytest.param("cluster", marks=pytest.mark.long)])
def scheduler(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Have one of the schedulers compute everything."""
    dask = pytest.importorskip("dask")
    chosen = request.param
    if chosen == "cluster":
        chosen = request.getfixturevalue("cluster")
        with chosen.as_current():
            yield chosen
    else:
        with dask.config.set(scheduler=chosen):
            yield chosen
