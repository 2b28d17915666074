"""Lidar over rough ground: several returns a pulse with random dropouts, in one compiled loop.

Run with ``python -m bvh.docs.programs.lidar``.
"""

import numba
import numpy as np
from numpy.typing import NDArray

import bvh
from bvh import kernels

RETURNS = 3


@numba.njit
def scan(arrays, origin, directions, reach, dropout, rng, returns):
    """Write the distances of returns into `returns`, shape (pulses, RETURNS), NaN where none."""
    t, prim_id = np.empty(8), np.empty(8, np.int32)
    for i in range(len(directions)):
        hits = kernels.first_hits(arrays, origin, directions[i], 0.0, reach, t, prim_id)
        count = 0
        for k in range(hits):
            # Farther returns are lost more often.
            loss = dropout + (1.0 - dropout) * (t[k] / reach) ** 2
            if count < RETURNS and rng.random() >= loss:
                returns[i, count] = t[k]
                count += 1


def terrain(n: int = 128) -> bvh.BVH:
    """Return the tree of a hilly terrain of n x n squares, z up, 100 wide."""
    axis = np.linspace(-50.0, 50.0, n + 1)
    heights = 4.0 * np.sin(axis / 5.0) * np.cos(axis[:, None] / 7.0)
    return bvh.BVH.from_heightfield(heights, axis, axis)


def pulses(rings: int = 32, around: int = 720) -> NDArray[np.float64]:
    """Return the unit directions of one turn of a scanner."""
    turn = np.linspace(0.0, 2.0 * np.pi, around, endpoint=False)
    dip = np.radians(np.linspace(-25.0, -2.0, rings))[:, None]
    x, y = np.cos(dip) * np.cos(turn), np.cos(dip) * np.sin(turn)
    return np.stack([x, y, np.broadcast_to(np.sin(dip), x.shape)], axis=-1).reshape(-1, 3)


def simulate(dropout: float = 0.1, seed: int = 1) -> NDArray[np.float64]:
    """Return the distances of all returns of one turn, (pulses, RETURNS)."""
    tree, directions, rng = terrain(), pulses(), np.random.default_rng(seed)
    returns = np.full((len(directions), RETURNS), np.nan)
    scan(tree.arrays, np.array([0.0, 0.0, 6.0]), directions, 80.0, dropout, rng, returns)
    return returns


if __name__ == "__main__":
    got = np.isfinite(simulate())
    print(f"{got.shape[0]} pulses, {got[:, 0].sum()} first and {got[:, 1].sum()} second returns")  # noqa: T201
