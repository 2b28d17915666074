"""Where memory ends, whatever is asked raises a MemoryError, and the process lives on.

A process that has loaded its kernels makes a child for each limit on its addresses; the child asks.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits on addresses hold on Linux only"
)

SWEEP = """
import faulthandler, os, resource, signal, sys, warnings

import numpy as np

import bvh
from bvh.runtime import threads as workers

# The triangles are not joined.
warnings.simplefilter("ignore", bvh.BVHWarning)

FINE, TOO_LITTLE, OTHER = 0, 3, 4
faulthandler.enable()
rng = np.random.default_rng(0)
count, threads, steps = 6000, int(sys.argv[2]), int(sys.argv[3])
lower = rng.random((count, 3))
points = (lower[:, None] + 0.02 * rng.random((count, 3, 3))).reshape(-1, 3)
faces = np.arange(3 * count).reshape(-1, 3)
rays = 3.0 * rng.random((20_000, 3)) - 1.0, rng.normal(size=(20_000, 3))
given = {"threads": threads}


def build(quality):
    return bvh.BVH.from_triangles(points, faces, quality=quality, **given)


def winding(tree):
    vars(tree.arrays).pop("_winding", None)
    tree.winding_number(rays[0], **given)


def scene(tree):
    made = bvh.Scene()
    for k in range(100):
        placed = np.eye(4)
        placed[:3, 3] = rays[0][k]
        made.add(tree, placed)
    made.closest_hit(*rays, **given), made.all_hits(rays[0][:200], rays[1][:200], **given)
    made.closest_point(rays[0][:200], **given)


QUESTIONS = {
    "boxes": lambda tree: bvh.BVH.from_boxes(lower, lower + 0.01, **given),
    "medium": lambda tree: build("medium"),
    "high": lambda tree: build("high"),
    "closest_hit": lambda tree: tree.closest_hit(*rays, **given),
    "all_hits": lambda tree: tree.all_hits(*rays, **given),
    "closest_point": lambda tree: tree.closest_point(rays[0], k=3, **given),
    "signed_distance": lambda tree: tree.signed_distance(rays[0], **given),
    "winding_number": winding,
    "refit": lambda tree: tree.refit(points + 0.001),
    "self_overlaps": lambda tree: tree.self_overlaps(**given),
    "scene": scene,
}


def outcome(ask, tree, kilobytes):
    child = os.fork()
    if child == 0:
        try:
            if threads > 1:
                workers.pool(threads)
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
            limit = used + 1024 * kilobytes
            signal.alarm(60)
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
            ask(tree)
        except MemoryError:
            os._exit(TOO_LITTLE)
        except BaseException:
            os._exit(OTHER)
        os._exit(FINE)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


for question in sys.argv[1].split(","):
    ask = QUESTIONS[question]
    # Another process compiles what is not in the cache: whoever does has memory left over.
    if os.fork() == 0:
        ask(build("medium"))
        os._exit(0)
    os.wait()
    tree = build("medium")
    ask(tree)
    enough = 64
    while outcome(ask, tree, enough) != FINE:
        enough *= 2
    found = [outcome(ask, tree, enough * k // steps) for k in range(steps)]
    print(question, enough, found)
    assert set(found) <= {FINE, TOO_LITTLE} and TOO_LITTLE in found
    assert outcome(ask, tree, 1 << 22) == FINE
"""
QUESTIONS = [
    "boxes", "medium", "high", "closest_hit", "all_hits", "closest_point",
    "signed_distance", "winding_number", "refit", "self_overlaps", "scene",
]  # fmt: skip


def sweep(questions: str, threads: int, steps: int) -> None:
    """Ask with limits from nothing to enough; questions are separated by commas."""
    # Memory that is freed is given back at once, so that limits are what they say.
    env = os.environ | {
        "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0",
        "MALLOC_TRIM_THRESHOLD_": "0",
    }  # fmt: skip
    call = [sys.executable, "-c", SWEEP, questions, str(threads), str(steps)]
    done = subprocess.run(call, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("questions", ["medium,all_hits", "boxes,scene"])
def test_the_end_of_memory(questions: str) -> None:
    sweep(questions, 1, 12)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_end_of_memory_anywhere(question: str, threads: int) -> None:
    sweep(question, threads, 80)
