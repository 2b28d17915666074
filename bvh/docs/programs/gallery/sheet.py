"""Sheet: paper for lit pictures, titles and colour bars, in the style that all pictures share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import bvh
from bvh.pictures import render
from bvh.pictures.shading import CLAY, GAMMA

Floats = NDArray[np.float64]
Mesh = tuple[Floats, NDArray[np.integer]]

INK, FAINT, PAPER = "#24303c", "#8593a0", "#ffffff"
BLUE, ORANGE, GREEN, RED = "#2f6690", "#e08d3c", "#7a9e7e", "#d7263d"
# Colours from low to high: thin walls to thick ones, shade to sun, and below to above.
THICK = ["#b5322b", "#e8843c", "#f6d98a", "#8dc0a3", "#2f7f94", "#274b73"]
SUN = ["#2d2f5e", "#6a4a86", "#c75c78", "#f29a5c", "#fbd77f", "#ffffff"]
SIGN = ["#1d4e79", "#6aa5cc", "#f3f0e8", "#eea25f", "#a8321f"]


def ground(scene: bvh.Scene, centre: ArrayLike = (0.0, 0.0, 0.0), reach: float = 1e3) -> int:
    """Add a square on which a scene stands, 2 * reach wide; return its id."""
    corners = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]]) * reach
    return scene.add((corners + np.asarray(centre), [[0, 1, 2, 3]]), name="ground")


def colours(shares: ArrayLike, names: list[str]) -> Floats:
    """Return colours between the named ones for shares from 0 to 1."""
    from matplotlib.colors import LinearSegmentedColormap

    return np.asarray(LinearSegmentedColormap.from_list("", names)(shares))[..., :3]


def rgb(name: str) -> Floats:
    """Return the components of a colour."""
    return np.array([int(name[k : k + 2], 16) / 255.0 for k in (1, 3, 5)])


class Lit:
    """A lit picture on white, half the camera's size, still to be painted.

    `position`, `normals`, `id`, `instance` and `uv` have a row for each point that is seen. Of the
    instance `floor` only the shadows are drawn.
    """

    def __init__(
        self, source: bvh.BVH | bvh.Scene, camera: bvh.Camera, floor: int = -2,
        contrast: float = 1.0, **lamp: Any,
    ) -> None:  # fmt: skip
        names = ("position", "normals", "id", "instance", "uv")
        lamp = {"softness": 8.0, "light_rays": 8, **lamp}
        picture = render(source, camera, "clay", data=names, ground=False, **lamp)
        self.mask = picture.data["id"] >= 0
        self.position, self.normals, self.id, self.instance, self.uv = (
            picture.data[name][self.mask] for name in names
        )
        light = ((picture.pixels / 255.0) ** GAMMA / CLAY)[self.mask]
        self.light, self.shadow = (1.15 * (light + 0.04)) ** contrast, self.instance == floor
        if self.shadow.any():
            grey = light[self.shadow].mean(axis=1, keepdims=True)
            self.light[self.shadow] = grey / np.quantile(grey, 0.3)

    def painted(self, colour: ArrayLike = 0.8, wires: bool = False) -> Floats:
        """Return pixels, for a colour of all points or of each; with edges of faces as wires."""
        found = np.ones((*self.mask.shape, 3))
        gap = np.minimum(self.uv.min(axis=1), 1.0 - self.uv.sum(axis=1))[:, None]
        colour = np.where(gap < 0.04, 0.75, 1.0) * colour if wires else colour
        light = self.light * np.where(self.shadow[:, None], 1.0, colour)
        found[self.mask] = np.minimum(light, 1.0) ** (1.0 / GAMMA)
        rows, columns = found.shape[0] // 2, found.shape[1] // 2
        blocks = found[: 2 * rows, : 2 * columns].reshape(rows, 2, columns, 2, 3)
        return np.asarray(blocks.mean(axis=(1, 3)))


class Sheet:
    """A figure of matplotlib, 12 inches wide, in which an inch is a 12th of `width` pixels."""

    def __init__(self, width: int, height: float, title: str, text: str = "") -> None:
        from matplotlib.figure import Figure

        self.pixels = width / 12.0
        self.figure = Figure(figsize=(12.0, height), dpi=self.pixels, facecolor=PAPER)
        self.height = height
        self.text(0.3, 0.44, title, size=20, weight="bold")
        self.text(0.3, 0.82, text, size=18, color=FAINT)

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        """Write at a position in inches from the upper left corner."""
        self.figure.text(left / 12.0, 1.0 - top / self.height, text, **{"color": INK, **style})

    def raster(self, width: float, height: float) -> dict[str, Any]:
        """Return the size of a camera for a panel: two by two rays for each pixel."""
        return {"width": 2 * round(width * self.pixels), "height": 2 * round(height * self.pixels)}

    def panel(
        self, left: float, top: float, width: float, height: float, shown: Floats | None = None
    ) -> Any:
        """Return axes of matplotlib, with a picture in the pixels of its camera, y down."""
        box = (left / 12.0, 1.0 - (top + height) / self.height, width / 12.0, height / self.height)
        axes = self.figure.add_axes(box, frameon=False, xticks=[], yticks=[])
        if shown is not None:
            rows, columns = np.shape(shown)[:2]
            axes.imshow(shown, extent=(0, 2 * columns, 2 * rows, 0), aspect="auto")
        return axes

    def bar(
        self, left: float, top: float, names: list[str], ends: Sequence[float | str], label: str
    ) -> None:
        """Draw a bar of colours, with numbers below it and what they are above."""
        axes = self.panel(left, top, 2.4, 0.13, colours(np.linspace(0, 1, 256)[None], names))
        axes.set_xticks(np.linspace(0.0, 512.0, len(ends)), [*map(str, ends)])
        axes.tick_params(length=0, pad=4, labelsize=10.5, labelcolor=INK)
        self.text(left, top - 0.1, label, size=11, color=INK)

    def save(self, path: Path) -> None:
        """Write the sheet to a file, in the format of its suffix."""
        lossy = {"quality": 88, "method": 6} if str(path).endswith(".webp") else {}
        self.figure.savefig(path, dpi=self.pixels, pil_kwargs=lossy)
