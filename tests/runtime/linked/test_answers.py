"""Linked kernels answer bit for bit as those that Numba compiles here, and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.children import answer, fork, start

pytestmark = pytest.mark.long

ANSWERS = """
import json
from pathlib import Path
from bvh.runtime.calls import linked
linked.LIBRARIES = Path({folder!r})
from tests.cases import answer_digests
share = [*answer_digests.questions().items()][::8]
print(json.dumps({{name: answer_digests.answered(question) for name, question in share}}))
"""
FIRST = """
import json, sys
from pathlib import Path
from bvh.runtime.calls import linked
linked.LIBRARIES = Path({folder!r})
import numpy as np, bvh
points = np.random.default_rng(0).random((300, 3))
tree = bvh.BVH.from_triangles(points, np.arange(300).reshape(-1, 3))
hits = tree.closest_hit(points, points[::-1] - points), tree.closest_hit([0, 0, 0], [1, 1, 1])
unused = [name for name in ("numba", "llvmlite", "trimesh") if name in sys.modules]
print(json.dumps({{"hits": int(hits[0].mask.sum()), "unused": unused}}))
"""


def test_answers_are_the_same(library: Path) -> None:
    """A share of all questions; users' functions are compiled in both."""
    script = ANSWERS.format(folder=str(library))
    linked, compiled = (fork(script, BVH_KERNELS=kernels) for kernels in ("linked", "off"))
    found = answer(linked)
    assert sum(map(len, found.values())) > 500
    assert found == answer(compiled)


def test_first_answers_import_no_compiler(library: Path) -> None:
    script = FIRST.format(folder=str(library))
    found = answer(start(script, BVH_KERNELS="linked", BVH_CACHE_DIR="off"))
    assert found == {"hits": 300, "unused": []}
