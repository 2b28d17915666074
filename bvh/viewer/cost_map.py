"""What the rays of a view cost, as a picture whose colours span what there is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.pictures.colours import HEAT, ramp
from bvh.scene import Scene
from bvh.simd import WIDTH

# Rays that are cast before somebody is asked whether to go on.
BAND = 1 << 17
# The share of rays that cost less than what has the hottest colour.
HOT_SHARE = 0.995


@dataclass(frozen=True, eq=False)
class CostMap:
    """The cost of each ray of a picture: visits of nodes and of groups of primitives.

    Attributes
    ----------
    costs : ndarray, shape (height, width)
    hottest : float
        What has the hottest colour: hardly a ray costs more.
    seconds : float
        Time spent casting.
    """

    costs: NDArray[np.float64]
    hottest: float
    seconds: float

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The picture, shape (height, width, 3)."""
        return np.asarray((255.0 * ramp(self.costs / self.hottest, HEAT)).round().astype(np.uint8))


def cost_map(
    scene: Scene, camera: Camera, threads: int | None, go_on: Callable[[], None]
) -> CostMap:
    """Cast a camera's rays and count what they visit; `go_on` may raise to end it."""
    costs = np.empty((camera.height, camera.width))
    band, seconds = max(1, BAND // camera.width), 0.0
    columns = (np.arange(camera.width) + 0.5) / camera.pixel_ratio
    for top in range(0, camera.height, band):
        bottom = min(top + band, camera.height)
        rows = (np.arange(top, bottom) + 0.5) / camera.pixel_ratio
        rays = camera.ray(columns, rows[:, None])
        began = time.perf_counter()
        hits: Any = scene.closest_hit(
            *rays, camera.t_min, camera.t_max, counters=True, threads=threads
        )
        seconds += time.perf_counter() - began
        costs[top:bottom] = hits.nodes + hits.tests / WIDTH
        go_on()
    hottest = max(1.0, float(np.ceil(np.quantile(costs, HOT_SHARE))))
    return CostMap(costs, hottest, seconds)
