"""What the rays of a view cost, as a picture whose colours span what there is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.pictures import render
from bvh.pictures.colours import HEAT, ramp
from bvh.scene import Scene

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
        Time spent casting and colouring.
    """

    costs: NDArray[np.float64]
    hottest: float
    seconds: float

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The picture, shape (height, width, 3)."""
        return np.asarray((255.0 * ramp(self.costs / self.hottest, HEAT)).round().astype(np.uint8))


def cost_map(
    scene: Scene, camera: Camera, threads: int | None, go_on: Callable[..., None]
) -> CostMap:
    """Cast a camera's rays and count what they visit; `go_on` may raise to end it."""
    picture = render(scene, camera, "cost", data="cost", threads=threads, progress=go_on)
    costs = picture.data["cost"]
    hottest = max(1.0, float(np.ceil(np.quantile(costs, HOT_SHARE))))
    return CostMap(costs, hottest, picture.seconds)
