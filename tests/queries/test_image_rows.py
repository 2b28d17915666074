"""Rows of images are found in flat batches of rays, which are then taken in tiles."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bvh
from bvh.queries.batches.ray_batches import SMALLEST_IMAGE, _order
from bvh.queries.query_arguments import ray_batch
from bvh.traversal.rays.ray_batch import NEVER


def row_of(directions: np.ndarray, shape: tuple[int, ...] | None = None) -> int:
    """Return the length of a row that a batch is taken to have; 0 for none."""
    d = directions if shape is None else directions.reshape(*shape, 3)
    batch = ray_batch(np.zeros(3), d, 0.0, np.inf)
    return _order(batch, batch.size, NEVER).row


@pytest.mark.parametrize("width", [64, 100, 511, 512, 700, 1920, 3840, 7680])
@pytest.mark.parametrize("camera", ["perspective", "wide"])
def test_rows_of_pictures(width: int, camera: str) -> None:
    fov = 100.0 if camera == "wide" else 30.0
    height = max(9, SMALLEST_IMAGE // width + 1)
    view = bvh.Camera.look_at([3, 2, 1], [0, 0, 0], fov_y=fov, width=width, height=height)
    d = view.rays()[1]
    assert row_of(d.reshape(-1, 3)) == width == row_of(d.reshape(-1, 3), (height, width))


def test_rays_without_rows(rng: np.random.Generator) -> None:
    n = 20_000
    around = np.linspace(0.0, 6.0, n)
    line = np.stack([np.cos(around), np.sin(around), np.zeros(n)], axis=1)
    picture = np.stack([np.tile(np.arange(100.0), 200), np.repeat(np.arange(200.0), 100),
                        np.full(n, -300.0)], axis=1)  # fmt: skip
    assert row_of(picture) == 100
    torn = picture.copy()
    torn[1_050:] = torn[: n - 1_050]
    later = picture.copy()
    # Rows of another length begin after the first rays that are looked at.
    later[2_000:] = np.repeat(picture[:9_000], 2, axis=0)
    lost = picture.copy()
    lost[:, 1] = np.nan
    with np.errstate(over="ignore"):
        far = picture * 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for d in (rng.normal(size=(n, 3)), line, np.ones((n, 3)), torn, later, lost, far):
            assert row_of(d) == 0
    assert row_of(np.resize(picture, (SMALLEST_IMAGE, 3))) == 0
    assert row_of(picture[: n - 1]) == 0


@pytest.mark.parametrize("n", [SMALLEST_IMAGE + 1, 5_000, 10_000])
def test_steady_steps_in_fewer_rays_than_are_looked_at(n: int) -> None:
    """More rays were looked at than there are, and the query failed."""
    around = np.linspace(0.0, 6.0, n)
    line = np.stack([np.cos(around), np.sin(around), np.zeros(n)], axis=1)
    assert row_of(line) == 0
    tree, o = bvh.BVH.from_boxes([[0, -9, -9]], [[9, 9, 9]]), [-1, 0, 0]
    hit = tree.any_hit(o, line)
    assert hit.any() and hit.tolist() == [tree.any_hit(o, d) for d in line]
