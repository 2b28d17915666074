"""The slow truth of clearances: every pair of faces of two instances, in float64 or exactly."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import bvh
from tests.oracles import overlaps, points, scene_overlaps, vectors

Triangle = Sequence[Sequence[float]]


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=-1)


def divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return quotients, 0 where the divisor is."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b != 0.0)


def nearest_of_segments(
    p: np.ndarray, q: np.ndarray, r: np.ndarray, s: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest points of segments p q and r s, by the best of five candidates."""
    d, e, w = q - p, s - r, p - r
    a, b, c, f, g = dot(d, d), dot(d, e), dot(e, e), dot(d, w), dot(e, w)
    t = np.clip(divided(b * g - c * f, a * c - b * b), 0.0, 1.0)
    zero, one = np.zeros_like(t), np.ones_like(t)
    best_x, best_y, best = p, r, np.full(t.shape, np.inf)
    for x_at, fixed in ((t, False), (zero, False), (one, False), (zero, True), (one, True)):
        if fixed:
            u = x_at
            v = np.clip(divided(b * u - f, a), 0.0, 1.0)
        else:
            v = x_at
            u = np.clip(divided(b * v + g, c), 0.0, 1.0)
            v = np.clip(divided(b * u - f, a), 0.0, 1.0)
        x, y = p + v[..., None] * d, r + u[..., None] * e
        square = dot(x - y, x - y)
        nearer = square < best
        best = np.where(nearer, square, best)
        best_x = np.where(nearer[..., None], x, best_x)
        best_y = np.where(nearer[..., None], y, best_y)
    return best_x, best_y


def feet(p: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the feet of points in the planes of triangles, NaN where outside."""
    a, b, c = t[..., 0, :], t[..., 1, :], t[..., 2, :]
    n = np.cross(b - a, c - a)
    h = divided(dot(n, p - a), dot(n, n))
    foot = p - h[..., None] * n
    inside = dot(n, n) > 0.0
    for x, y in ((a, b), (b, c), (c, a)):
        inside &= dot(n, np.cross(y - x, p - x)) >= 0.0
    return np.where(inside[..., None], foot, np.nan)


def triangle_distances(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distances (n, m) of triangles (n, 3, 3) and (m, 3, 3), and the nearest points."""
    shape = len(a), len(b), 3, 3
    a, b = np.broadcast_to(a[:, None], shape), np.broadcast_to(b[None], shape)
    best = np.full(shape[:2], np.inf)
    x_best, y_best = np.full(shape[:2] + (3,), np.nan), np.full(shape[:2] + (3,), np.nan)
    candidates = []
    for i in range(3):
        foot = feet(a[..., i, :], b)
        candidates.append((a[..., i, :], foot))
        foot = feet(b[..., i, :], a)
        candidates.append((foot, b[..., i, :]))
        for j in range(3):
            ends = (t[..., k % 3, :] for t, k in ((a, i), (a, i + 1), (b, j), (b, j + 1)))
            candidates.append(nearest_of_segments(*ends))
    for x, y in candidates:
        with np.errstate(invalid="ignore"):
            distance = np.sqrt(dot(x - y, x - y))
            nearer = distance < best
        best = np.where(nearer, distance, best)
        x_best = np.where(nearer[..., None], x, x_best)
        y_best = np.where(nearer[..., None], y, y_best)
    return best, x_best, y_best


def squared_distance(a: Triangle, b: Triangle) -> Fraction:
    """Return the exact square of the distance of two triangles."""
    if overlaps.triangles_touch(a, b):
        return Fraction(0)
    squares = [points.squared_distance(p, *b) for p in a]
    squares += [points.squared_distance(p, *a) for p in b]
    exact_a, exact_b = overlaps.exact(a), overlaps.exact(b)
    for i in range(3):
        for j in range(3):
            ends = exact_a[i - 1], exact_a[i], exact_b[j - 1], exact_b[j]
            square = _between_lines(*ends)
            if square is not None:
                squares.append(square)
    return min(squares)


def _between_lines(p: Any, q: Any, r: Any, s: Any) -> Fraction | None:
    """Return the square of the distance of two lines, if nearest within segments p q and r s."""
    d, e, w = vectors.minus(q, p), vectors.minus(s, r), vectors.minus(p, r)
    a, b, c = vectors.dot(d, d), vectors.dot(d, e), vectors.dot(e, e)
    f, g = vectors.dot(d, w), vectors.dot(e, w)
    det = a * c - b * b
    if det == 0:
        return None
    t, u = (b * g - c * f) / det, (a * g - b * f) / det
    if not (0 <= t <= 1 and 0 <= u <= 1):
        return None
    between = [w[k] + t * d[k] - u * e[k] for k in range(3)]
    return vectors.dot(between, between)


def clearances(scene: bvh.Scene) -> dict[tuple[int, int], tuple[Fraction, list[tuple[int, ...]]]]:
    """Return the exact squared distance of each pair of instances, and all faces that have it.

    Faces as (leaf, prim, leaf, prim), ascending.
    """
    faces = scene_overlaps.faces(scene)
    best: dict[tuple[int, int], tuple[Fraction, list[tuple[int, ...]]]] = {}
    for k, a in enumerate(faces):
        for b in faces[k + 1 :]:
            if a.instance == b.instance:
                continue
            pair, ends = (a.instance, b.instance), (a.leaf, a.prim, b.leaf, b.prim)
            square = squared_distance(a.corners, b.corners)
            if pair not in best or square < best[pair][0]:
                best[pair] = square, [ends]
            elif square == best[pair][0]:
                best[pair][1].append(ends)
    return {pair: (square, sorted(ends)) for pair, (square, ends) in sorted(best.items())}
