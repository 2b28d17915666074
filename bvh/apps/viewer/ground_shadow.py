"""Shadow of a scene on the ground below it, cast by our rays, as an image for pages."""

from collections.abc import Collection
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.drawing import Floats, PageFrame
from bvh.camera.placement import oblique
from bvh.pictures.lights import Ground, Lights, cells_of
from bvh.scene.scene import Scene

# Pixels along each side of the image, rays from each to the sky, and to the lamp, and the largest
# distance of occluders as a share of the diagonal.
SIDE, RAYS, REACH = 128, 12, 0.25
# Opacity of a ground without any light.
DARKEST = 0.85


class GroundShadow(NamedTuple):
    """Image of a shadow: black, with the share of light that is missing as its opacity.

    The rows of `pixels` (n, n, 4) run along the second axis of `across` (2, 3), the columns along
    the first; `centre` and `size` are of the world.
    """

    pixels: NDArray[np.uint8]
    across: Floats
    centre: Floats
    size: Floats

    def show(self, scene: Any, frame: PageFrame, name: str = "/shadow") -> Any:
        """Draw the shadow in viser's `scene` of a page with this frame; return viser's handle."""
        from trimesh.transformations import quaternion_from_matrix

        turn = np.eye(4)
        turn[:3, :3] = np.stack([*self.across, np.cross(*self.across)], axis=1)
        width, height = (self.size * frame.scale).tolist()
        return scene.add_image(
            name, self.pixels, width, height, format="png", cast_shadow=False,
            receive_shadow=False, position=frame.to_page(self.centre),
            wxyz=quaternion_from_matrix(turn),  # type: ignore[no-untyped-call]
        )  # fmt: skip


def ground_shadow(scene: Scene, up: Floats, without: Collection[int] = ()) -> GroundShadow | None:
    """Return the shadow of a scene on the ground below it; None if it has no finite extent.

    `up` is a unit vector. Instances with the ids `without` throw no shadow.
    """
    scene = copy(scene)
    for number in without:
        if number in scene:
            scene.set_visible(number, False)
    bounds = scene.bounds
    diagonal = float(np.linalg.norm(bounds[1] - bounds[0]))
    if not (np.isfinite(bounds).all() and 0.0 < diagonal < np.inf):
        return None
    # The lamp is to the side of the first view of a page, and high, so that shadows are short.
    along = oblique(up)
    along -= (along @ up) * up
    lamp = up + 0.25 * np.cross(up, along) - 0.1 * along
    lights = Lights(
        lamp=lamp / np.linalg.norm(lamp), zenith=up, softness=0.0, rays=RAYS, reach=REACH * diagonal
    )
    ground = Ground.below(bounds, up, lights)
    if ground is None:
        return None
    # Cast rays down through the centres of pixels, from above the ground. The image covers the part
    # of the ground where there may be shadows: from `low` on, along two axes in it.
    steps = (np.arange(SIDE) + 0.5) / SIDE
    low, size = ground.near[0], ground.near[1] - ground.near[0]
    x, y = np.meshgrid(low[0] + size[0] * steps, low[1] + size[1] * steps)
    in_plane = x[..., None] * ground.across[0] + y[..., None] * ground.across[1]
    points = (in_plane + (ground.level + diagonal) * up).reshape(-1, 3)
    # The cell of a pixel chooses its rays to the lights, which differ between nearby pixels.
    cells = cells_of(np.arange(SIDE), np.arange(SIDE)).ravel()
    light, _ = ground.light(scene, points, np.broadcast_to(-up, points.shape), cells)
    missing = _blurred((1.0 - light).reshape(SIDE, SIDE))
    # The shadow fades over a twelfth of the image, so that no edge of the image can be seen.
    fade = np.clip(np.minimum(steps, 1.0 - steps) * 12.0, 0.0, 1.0)
    pixels = np.zeros((SIDE, SIDE, 4), np.uint8)
    pixels[..., 3] = np.round(255.0 * DARKEST * missing * fade * fade[:, None])
    centre = (low + 0.5 * size) @ ground.across + ground.level * up
    return GroundShadow(pixels, ground.across, centre, size)


def _blurred(shares: Floats) -> Floats:
    """Return an image smoothed along both axes with weights 1/4, 1/2, 1/4."""
    for _ in range(2):
        padded = np.pad(shares, [(1, 1), (0, 0)], "edge")
        shares = (0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]).T
    return shares
