"""Picture: pixels, the data of its pixels, its legend, files and display in notebooks."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import replace_file
from bvh.pictures.colours import HEAT, ramp
from bvh.runtime.arguments import number_of
from bvh.runtime.registry import extra

# Suffix of files of numbers.
NUMBERS = ".npy"
# Largest width in notebooks.
WIDEST = 640
# The legend of pictures of costs.
LABEL = "nodes and groups a ray visits"
PAPER, INK = (18, 20, 26), (235, 238, 242)
# Smaller pictures have no legend.
MIN_WIDTH, MIN_HEIGHT = 300, 120
# Height of the legend's text in pictures up to OF_HEIGHT pixels high; in taller ones it grows in
# proportion.
TEXT_HEIGHT, OF_HEIGHT = 11, 600
# The legend is at most LETTERS times as wide as its text is high.
LETTERS = 26


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A picture and the numbers behind its pixels. Notebooks display it.

    Attributes
    ----------
    pixels : ndarray of uint8, shape (height, width, 3)
    rays : int
        Rays that were cast, including those to the lamp and the sky.
    seconds : float
        Time of casting and shading.
    shade : str
        Content of the pixels, as passed to `render`.
    hottest : float or None
        Of a picture of costs, the cost that is white: visited nodes and groups of primitives.
    data : dict of str to ndarray, shape (height, width) or (height, width, k)
        The requested numbers by name, at the centres of pixels:

        - "depth": float64, t of the pixel's ray, which for rays of cameras is the distance from the
          plane through the eye. +inf for a miss.
        - "id", "instance", "leaf": int32, the face, instance and leaf; -1 for a miss.
        - "normals": float64, the unit world normal on the side of the camera. NaN for a miss.
        - "position": float64, the point in world coordinates. NaN for a miss.
        - "uv": float64, texture coordinates if the mesh has some, else u and v of the hit. NaN for
          a miss.
        - "cost": float64, visited nodes and groups of primitives.
        - "ao": float64, the visible share of the sky, weighted by the cosine. 1 for a miss.
        - "shadow": float64, the visible share of the lamp, 0 on sides that face away from it. 1 for
          a miss.
    """

    pixels: NDArray[np.uint8]
    rays: int = 0
    seconds: float = 0.0
    shade: str = ""
    data: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    hottest: float | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, in the format of its suffix.

        An existing file is replaced only by a complete one.

        Parameters
        ----------
        path : path-like
            Any format in which pillow writes colours; or .npy for numbers: the `data` of the shade,
            or the pixels if there are none.
        """
        check_picture_path(path)
        file, stream = Path(path), io.BytesIO()
        if file.suffix.lower() == NUMBERS:
            np.save(stream, self.data.get(self.shade, self.pixels))
        else:
            need_pillow().fromarray(self.pixels).save(stream, format=_format_of(file))
        write(path, stream)

    def png(self, widest: int | None = None) -> bytes:
        """Return the picture as the bytes of a PNG file.

        Parameters
        ----------
        widest : int, optional
            Largest width in pixels; a wider picture is scaled down.
        """
        image = need_pillow().fromarray(self.pixels)
        if widest is not None and image.width > widest:
            image = image.resize((widest, max(1, round(image.height * widest / image.width))))
        stream = io.BytesIO()
        image.save(stream, format="png")
        return stream.getvalue()

    def _repr_png_(self) -> bytes:
        """Return the picture as a PNG file for notebooks, at most WIDEST pixels wide."""
        return self.png(WIDEST)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the picture, with its `repr` as the caption."""
        code = base64.b64encode(self._repr_png_()).decode("ascii")
        style = "font: 12px monospace; color: gray"
        return (
            f'<figure style="margin: 0"><img alt="" src="data:image/png;base64,{code}">'
            f'<figcaption style="{style}">{html.escape(repr(self))}</figcaption></figure>'
        )

    def __repr__(self) -> str:
        """Return size, shade, white cost, rays and data in a line, without those that are unset."""
        height, width = self.pixels.shape[:2]
        parts = [f"{width} x {height} pixels{self.shade and f' of {self.shade}'}"]
        if self.hottest is not None:
            parts.append(f"white for {self.hottest:.4g} visits and more")
        if self.rays:
            parts.append(f"{number_of(self.rays, 'rays')} in {self.seconds:.3g} s")
        if self.data:
            parts.append(f"data of {', '.join(self.data)}")
        return f"Picture({', '.join(parts)})"


def with_legend(picture: Picture) -> Picture:
    """Return a picture of costs with a legend in its lower left corner.

    Pictures of anything else, and those too small for a legend, are returned unchanged.
    """
    height, width = picture.pixels.shape[:2]
    if picture.hottest is None or width < MIN_WIDTH or height < MIN_HEIGHT:
        return picture
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(picture.pixels)
    # Limited so that the legend is not wider than the picture.
    text_height = max(TEXT_HEIGHT, min(TEXT_HEIGHT * height // OF_HEIGHT, width // LETTERS))
    font, pad = ImageFont.load_default(text_height), text_height // 2
    labels = ("0", LABEL, f"{picture.hottest:.4g}+")
    widths = [int(np.ceil(font.getlength(label))) for label in labels]
    strip_width = sum(widths) + 4 * pad
    line_height = int(np.ceil(1.3 * text_height))
    left, top = pad, height - 4 * pad - 2 * line_height
    draw = ImageDraw.Draw(image)
    draw.rectangle((left, top, left + strip_width + 2 * pad, height - pad - 1), fill=PAPER)
    # A strip of the colours, and below it the labels: on the left, in the middle, on the right.
    shades = ramp(np.linspace(0.0, 1.0, strip_width), HEAT)
    strip = np.repeat((255.0 * shades).round().astype(np.uint8)[None], line_height, axis=0)
    image.paste(Image.fromarray(strip), (left + pad, top + pad))
    below = top + pad + line_height + pad // 2
    offsets = (0, (strip_width - widths[1]) // 2, strip_width - widths[2])
    for offset, label in zip(offsets, labels, strict=True):
        draw.text((left + pad + offset, below), label, fill=INK, font=font)
    return replace(picture, pixels=np.array(image))


def check_picture_path(path: str | os.PathLike[str]) -> None:
    """Raise if no picture can be written to a path."""
    file = Path(path)
    check_path(file, "picture", file.suffix.lower() == NUMBERS or _format_of(file) is not None)


def check_path(file: Path, kind: str, is_supported: bool) -> None:
    """Raise unless a new file's format `is_supported`, its folder exists, and it is no folder.

    `kind` is its noun in messages, such as "picture".
    """
    if not is_supported:
        raise ValueError(f"cannot write {file}: unknown {kind} format {file.suffix!r}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {file.parent}")
    if file.is_dir():
        raise IsADirectoryError(f"cannot write {file}: it is a folder")


def write(path: str | os.PathLike[str], stream: io.BytesIO) -> None:
    """Write the content of a stream to a file; an old file is replaced by the complete new one."""
    replace_file(path, [np.frombuffer(stream.getbuffer(), np.uint8)])


def _format_of(file: Path) -> str | None:
    """Return pillow's name for the format of a file's suffix; None if it cannot write colours."""
    image = need_pillow()
    kind: str | None = image.registered_extensions().get(file.suffix.lower())
    try:
        # Some formats are read-only or have no colours, which only an attempt shows.
        image.new("RGB", (1, 1)).save(io.BytesIO(), format=kind or "")
    except (KeyError, OSError, ValueError):
        return None
    return kind


def need_pillow() -> Any:
    """Return the module PIL.Image; without pillow, raise an ImportError that names the extra."""
    with extra("cli", "pictures need pillow"):
        from PIL import Image
    return Image
