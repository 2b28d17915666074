"""End-point overlap of trees, against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.epo import overlap_of
from bvh import BVH
from bvh.tree.build import QUALITIES
from tests.cases.saved_trees import tree_of
from tests.cases.soups import FLAT, at_places, soup
from tests.oracles import storage as oracle_storage
from tests.queries.test_refit import needles

Rng = np.random.Generator


def test_small_trees() -> None:
    """Trees without faces that can be hit, and kinds without faces."""
    for vertices, faces in (
        (np.empty((0, 3)), np.empty((0, 3), int)), (FLAT, [[0, 1, 2]]),
        (FLAT * np.nan, [[0, 1, 2]]), (np.zeros((1, 3)), [[0, 0, 0]]),
    ):  # fmt: skip
        assert overlap_of(BVH.from_triangles(vertices, faces)) == 0.0
    for kind in ("boxes", "obbs"):
        assert overlap_of(tree_of(kind, np.random.default_rng(0))) is None


@pytest.mark.parametrize("quality", QUALITIES)
def test_overlap_is_what_clipping_in_rational_numbers_gives(quality: str, rng: Rng) -> None:
    """For random triangles, long ones that are split, and such as lie in the planes of boxes."""
    grid = rng.integers(0, 4, (30, 3, 3)).astype(float).reshape(-1, 3)
    meshes = [
        soup(rng, 30, 0.4),
        needles(rng, 30),
        (grid, np.arange(90).reshape(-1, 3)),
        (np.where(rng.random((90, 1)) < 0.01, np.nan, grid), np.arange(90).reshape(-1, 3)),
    ]
    for vertices, faces in meshes:
        tree = BVH.from_triangles(vertices * 1e3 + 1e4, faces, quality=quality)
        assert overlap_of(tree) == pytest.approx(oracle_storage.epo(tree), rel=1e-9)


def test_overlap_tells_good_trees_from_bad(rng: Rng) -> None:
    """Nothing overlaps where triangles lie apart; a tree of shuffled places overlaps everywhere."""
    from tests.queries.test_refit import moved

    places = np.stack(np.meshgrid(*[np.arange(12.0)] * 3), axis=-1).reshape(-1, 3)
    tree = BVH.from_triangles(*at_places(places, 0.5))
    assert overlap_of(tree) == 0.0
    shuffled = moved(tree, at_places(rng.permutation(places), 0.5)[0])
    assert overlap_of(shuffled) > 10.0
    # It does not depend on where a tree is, or how large.
    p, f = soup(rng, 500, 0.2)
    one, other = BVH.from_triangles(p, f), BVH.from_triangles(p * 2.0**30, f)
    assert overlap_of(one) == overlap_of(other) > 0.0
