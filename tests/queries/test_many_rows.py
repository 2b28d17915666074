"""Rays that threads copy to the layout of kernels, and check: many, of any layout and type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh import BVH
from bvh.queries import query_arguments
from bvh.queries.query_arguments import ray_batch
from bvh.runtime import threads

ROWS, COLUMNS = 90, 30


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take few rows at a time."""
    monkeypatch.setattr(query_arguments, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(threads, "NUMBERS_AT_ONCE", 192)


# Each makes two arrays with the same numbers: as given, and as kernels take them.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda a: a.astype(np.float32),
    "column by column": np.asfortranarray,
    "every other": lambda a: np.repeat(a, 2, axis=-2)[..., ::2, :],
    "a row for each line": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "a row for each column": lambda a: np.broadcast_to(a[:1], a.shape),
    "integers": lambda a: (8 * a).astype(np.int16),
    "big-endian": lambda a: a.astype(">f8"),
    "reversed": lambda a: a[::-1],
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, threads: int, rng: np.random.Generator) -> None:
    o, d = (LAYOUTS[layout](a) for a in rng.normal(size=(2, ROWS, COLUMNS, 3)))
    far = LAYOUTS[layout](np.abs(rng.normal(size=(ROWS, COLUMNS, 1))))[..., 0]
    batch = ray_batch(o, d, 0.0, far, threads=threads)
    assert batch.shape == (ROWS, COLUMNS)
    for got, given in zip(batch.rays, (o, d, np.zeros(1), far), strict=False):
        wanted = np.ascontiguousarray(given, np.float64).reshape(got.shape)
        assert got.tobytes() == wanted.tobytes() and got.dtype == np.float64
        assert got.flags.c_contiguous and not got.flags.writeable


def test_a_line_of_origins(rng: np.random.Generator) -> None:
    """A lidar's rays have an origin for each line of directions."""
    tree = BVH.from_triangles(rng.normal(size=(90, 3)), np.arange(90).reshape(-1, 3))
    o, d = rng.normal(size=(ROWS, 1, 3)), rng.normal(size=(ROWS, COLUMNS, 3))
    hits = tree.closest_hit(o, d, threads=2)
    wanted = tree.closest_hit(np.broadcast_to(o, d.shape).copy(), d, threads=1)
    assert hits.t.tobytes() == wanted.t.tobytes()
    assert np.array_equal(hits.prim_id, wanted.prim_id)


def test_numbers_beyond_float64_become_infinite() -> None:
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long doubles are doubles here")
    d = np.ones((ROWS, COLUMNS, 3), np.longdouble)
    d[7, 5, 1] = np.longdouble("1e400")
    directions = ray_batch(np.zeros(3), d, threads=2).rays.directions
    assert np.isinf(directions).sum() == 1 and directions[7 * COLUMNS + 5, 1] == np.inf


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("first", [0, 63, 64, 1234, ROWS * COLUMNS - 1])
def test_the_first_bad_ray(first: int, threads: int, rng: np.random.Generator) -> None:
    """It is named, whichever thread finds it."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    o, d = rng.normal(size=(2, ROWS * COLUMNS, 3))
    d[first:][rng.integers(0, len(d) - first, 20)] = np.nan
    o[first] = np.inf
    with pytest.raises(ValueError, match=f"ray {first} has an origin that is not finite"):
        tree.closest_hit(o, d, validate_rays=True, threads=threads)
