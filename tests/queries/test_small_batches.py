"""Batches of plain rays: they take a short way, and get what others get."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.batches import ray_batches
from bvh.queries.batches.quick_calls import SMALL_BATCH
from bvh.queries.query_arguments import plain_rays

RAYS = np.random.default_rng(5).normal(size=(2, SMALL_BATCH, 3))
MANY = np.random.default_rng(6).normal(size=(2, 60, 90, 3))


def targets() -> dict[str, Any]:
    """Return trees and scenes of all kinds."""
    rng = np.random.default_rng(7)
    corners = rng.normal(size=(40, 3))
    mesh = bvh.BVH.from_triangles(rng.normal(size=(30, 3)), rng.integers(0, 30, (50, 3)))
    boxes = bvh.BVH.from_boxes(corners, corners + rng.random((40, 3)))
    turned = bvh.BVH.from_obbs(corners, corners + 0.5, np.tile(np.eye(4), (40, 1, 1)))
    scene = bvh.Scene()
    for child in (mesh, boxes, mesh):
        pose = np.eye(4)
        pose[:3, 3] = rng.normal(size=3)
        scene.add(child, pose)
    empty = bvh.BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), int))
    return {
        "triangles": mesh, "boxes": boxes, "obbs": turned, "scene": scene, "empty": empty,
        "empty scene": bvh.Scene(),
    }  # fmt: skip


TARGETS = targets()


def same(one: Any, other: Any) -> None:
    """Check that two results are equal, bit for bit, in arrays of the same kinds."""
    assert type(one) is type(other) and list(vars(one)) == list(vars(other))
    for name, column in vars(one).items():
        wanted = vars(other)[name]
        if name == "_source":
            continue
        assert column.dtype == wanted.dtype and column.shape == wanted.shape, name
        assert column.flags.writeable == wanted.flags.writeable
        assert np.array_equal(column, wanted, equal_nan=column.dtype.kind == "f"), name


@pytest.mark.parametrize("count", [0, 1, 2, 65, 257, 1_000])
@pytest.mark.parametrize("name", TARGETS)
def test_they_get_what_others_get(name: str, count: int) -> None:
    target, (o, d) = TARGETS[name], RAYS[:, :count]
    assert plain_rays(o, d, 0.0, np.inf) is not None
    for limits in ((), (0.25, 1.5), (-np.inf, np.inf), (np.nan, 1.0), (1.0, 0.5)):
        # `sort` alone leads the other way.
        same(target.closest_hit(o, d, *limits), target.closest_hit(o, d, *limits, sort=False))
        hit = target.any_hit(o, d, *limits)
        assert hit.dtype == bool
        assert np.array_equal(hit, target.any_hit(o, d, *limits, threads=1))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", TARGETS)
def test_larger_batches_and_images(name: str, threads: int) -> None:
    """Also with one origin or one direction for all rays."""
    target, (o, d) = TARGETS[name], MANY
    eye = np.broadcast_to(o[0, 0], d.shape)
    pairs = [(o, d), (o[:, :7].copy(), d[:, :7].copy()), (eye, d), (o[0, 0], d), (o, d[0, 0])]
    pairs += [(o.reshape(-1, 3), d.reshape(-1, 3)), (o[:0], d[:0]), (o[0, 0], d[0, :1])]
    for given in pairs:
        assert plain_rays(*given, 0.0, np.inf) is not None
        hits = target.closest_hit(*given, threads=threads)
        same(hits, target.closest_hit(*given, threads=threads, sort=False))
        hit = target.any_hit(*given, threads=threads)
        assert hit.shape == hits.mask.shape and np.array_equal(hit, hits.mask)
        again = target.closest_hit(*given, sort=False)
        assert np.array_equal(hits.position, again.position, equal_nan=True)


def test_what_must_be_checked_is() -> None:
    """Only arrays that kernels can take as they are are plain."""
    o, d = RAYS[:, :8].copy()

    class Own(np.ndarray):
        """An array of another class."""

    raw = np.empty(d.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(d.shape)
    raw[:] = d
    others = [
        d[::-1], np.asfortranarray(d), d[:4], d[:, 0], d.astype(np.float32), d.tolist(), raw,
        d.view(Own), np.ma.array(d), d[:, None], d.astype(">f8"), d[:1], d[:, :2].copy(),
        np.broadcast_to(d[:, :1], d.shape), np.broadcast_to(d[0, ::-1], d.shape),
    ]  # fmt: skip
    for other in others:
        assert plain_rays(o, other, 0.0, np.inf) is None
        assert plain_rays(other, d, 0.0, np.inf) is None
    mesh = TARGETS["triangles"]
    same(mesh.closest_hit(o, raw), mesh.closest_hit(o, d))
    same(mesh.closest_hit(o, d[::-1]), mesh.closest_hit(o, d[::-1].copy()))
    with pytest.raises(TypeError, match="directions"):
        mesh.closest_hit(o, np.ma.array(d))


def test_they_ask_for_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_batches, "claim_blocks", None)
    mesh, (o, d) = TARGETS["triangles"], RAYS
    assert len(mesh.closest_hit(o, d).t) == len(mesh.any_hit(o, d)) == SMALL_BATCH
    for array in (o, d):
        array.flags.writeable = False
    mesh.closest_hit(o, d)
