"""Distances between meshes with many pairs of faces at the same distance: against single faces."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from bvh import BVH
from bvh.queries.batches import distance_batches
from bvh.tree.oriented_boxes import plain_boxes

pytestmark = pytest.mark.answers
Mesh = tuple[np.ndarray, np.ndarray]


def plate(n: int) -> Mesh:
    """Return the surface of a box of squares, two triangles each."""
    x, y = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    side = np.stack([x, y, 0 * x], axis=-1).reshape(-1, 3) / n
    at = (np.arange(n)[:, None] * (n + 1) + np.arange(n)).reshape(-1, 1)
    faces = np.vstack([at + [0, n + 1, 1], at + [1, n + 1, n + 2]])
    turns = [side, side + [0, 0, 1], side[:, [2, 0, 1]], side[:, [2, 0, 1]] + [1, 0, 0]]
    vertices = np.vstack(turns)
    return vertices, np.vstack([faces + k * len(side) for k in range(len(turns))])


def fan(n: int) -> Mesh:
    """Return a cone and its base, of long thin triangles that share a vertex each."""
    angle = np.arange(n) * (2.0 * np.pi / n)
    rim = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=-1)
    vertices, k = np.vstack([rim, [[0, 0, 3.0]], [[0, 0, 0]]]), np.arange(n)
    after = (k + 1) % n
    cone, base = np.stack([k, after, 0 * k + n], axis=-1), np.stack([after, k, 0 * k + n + 1], -1)
    return vertices, np.vstack([cone, base])


def scan(rng: np.random.Generator, n: int = 9) -> Mesh:
    """Return a bumpy sheet."""
    vertices, faces = plate(n)
    side = (n + 1) ** 2
    vertices = vertices[:side] * 2.0
    vertices[:, 2] = rng.normal(size=side) * 0.1
    return vertices, faces[: 2 * n * n]


def places(rng: np.random.Generator) -> np.ndarray:
    """Return transforms: side by side, at an angle, far, stretched, and meeting."""
    found = np.tile(np.eye(4), (9, 1, 1))
    found[0, :3, 3] = 0.0, 0.0, 1.25
    found[1, :3, 3] = 1.5, 1.5, 3.5
    found[2, :3, 3] = 0.25, 2.0, 0.0
    for k in range(3, 9):
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        found[k, :3, :3] = turn * (rng.uniform(0.25, 2.0, size=3) if k == 5 else 1.0)
        away = rng.normal(size=3)
        away *= (4.0, 3.0, 2.5, 1e5, 0.8, 1e3)[k - 3] / np.linalg.norm(away)
        found[k, :3, 3] = away
    return found


@pytest.mark.parametrize("name", ["plates", "fans", "scans", "mixed"])
def test_lowest_pair_of_many(
    name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The distance and pair are those of single faces, with boxes of both kinds, and any hint."""
    makers = {"plates": plate(4), "fans": fan(40), "scans": scan(rng)}
    own, other = {"mixed": (plate(4), fan(40))}.get(name, (makers.get(name), makers.get(name)))
    (v, f), (w, g) = own, other
    f, g = f[rng.permutation(len(f))], g[rng.permutation(len(g))]
    b, matrices = BVH.from_triangles(w, g), places(rng)
    single = [BVH.from_triangles(v, face[None]).distance_to(b, matrices) for face in f]
    distances = np.array([one.distance for one in single])
    first = np.argmin(distances, axis=0)
    wanted = distances.min(axis=0)
    partner = np.array([single[i].prim_id[q, 1] for q, i in enumerate(first)])
    for boxes in (None, plain_boxes):
        if boxes is not None:
            monkeypatch.setattr(distance_batches, "oriented_boxes", boxes)
        a, b = BVH.from_triangles(v, f), BVH.from_triangles(w, g)
        for hint in (None, np.stack([first, partner], axis=-1), [0, 0]):
            found = a.distance_to(b, matrices, hint=hint)
            assert np.array_equal(found.distance, wanted)
            assert np.array_equal(found.prim_id, np.stack([first, partner], axis=-1))
            x, y = found.position[:, 0], found.position[:, 1]
            assert np.allclose(np.linalg.norm(x - y, axis=1), wanted, rtol=1e-9, atol=1e-9)
            assert (a.distance(x) <= 1e-9).all()


def test_boxes_are_fitted_to_trees_of_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and once; what is known of a tree ends with it."""
    fitted = []
    real = distance_batches.oriented_boxes
    monkeypatch.setattr(
        distance_batches, "oriented_boxes", lambda arrays: fitted.append(1) or real(arrays)
    )
    monkeypatch.setattr(distance_batches, "NODES_A_QUERY", 1)
    tree = BVH.from_triangles(*plate(12))
    nodes, apart = tree._arrays.nodes.size, np.diag([1.0, 1.0, 1.0, 1.0])
    assert nodes > 2
    apart[:3, 3] = 3.0, 1.0, 0.5
    found = [tree.distance_to(tree, apart) for _ in range(nodes // 2)]
    assert not fitted
    found += [tree.distance_to(tree, apart) for _ in range(nodes)]
    assert fitted == [1]
    assert {one.distance for one in found} == {found[0].distance}
    known = weakref.ref(vars(tree._arrays)["_distances"])
    assert known() is not None
    del tree
    assert known() is None
