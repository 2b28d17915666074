"""The slow truth of trees that have been refitted: hits by rational arithmetic, boxes by minima."""

from __future__ import annotations

import numpy as np

from bvh import BVH
from tests.oracles import rays as oracle


def assert_true(tree: BVH, origins: np.ndarray, directions: np.ndarray) -> None:
    """Compare nearest hits with those that rational arithmetic finds."""
    hits = tree.closest_hit(origins, directions)
    truth = oracle.closest_hit(tree.vertices, tree.faces, origins, directions)
    assert np.array_equal(hits.prim_id, truth.prim_id)
    assert np.array_equal(hits.front, truth.front)
    close = np.isclose(hits.t, truth.t, rtol=2.0**-50, atol=0.0)
    assert (close | (hits.t == truth.t)).all()
