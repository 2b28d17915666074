"""A picture: its pixels, what is known of each of them, and how it is written and shown."""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.container import replace_file

# The ending of files of numbers, in place of pictures.
NUMBERS = ".npy"

# Notebooks show wider pictures smaller.
WIDEST = 640


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """A picture, and what lies behind its pixels. Notebooks show it.

    Attributes
    ----------
    pixels : ndarray of uint8, shape (height, width, 3)
    rays : int
        Rays that were cast, those to lamps and to the sky included.
    seconds : float
        Time that the picture took, casting and shading.
    shade : str
        What the pixels show, as `render` was asked for it.
    hottest : float or None
        Of a picture of costs, what is white: visits of nodes and groups of primitives.
    data : dict of str to ndarray, shape (height, width) or (height, width, k)
        The numbers that were asked for, by name, taken at the centres of pixels:

        - "depth": float64, t of the pixel's ray. Rays of cameras go so far that this is the
          distance from the plane through the eye. +inf for a miss.
        - "id", "instance", "leaf": int32, the face, instance and leaf; -1 for a miss.
        - "normals": float64, the unit normal in the world that points to the camera. NaN for a
          miss.
        - "position": float64, the point in the world. NaN for a miss.
        - "uv": float64, texture coordinates where the mesh has some, else u and v of the hit. NaN
          for a miss.
        - "cost": float64, nodes and groups of primitives that the ray has visited.
        - "ao": float64, the share of the sky that is open, weighted by the cosine. 1 for a miss.
        - "shadow": float64, the share of the lamp that is seen, 0 on sides turned away from it. 1
          for a miss.
    """

    pixels: NDArray[np.uint8]
    rays: int = 0
    seconds: float = 0.0
    shade: str = ""
    data: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    hottest: float | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file; the ending tells the format.

        A file that is there is replaced once the new one is complete, or not at all.

        Parameters
        ----------
        path : path-like
            A picture in any format in which pillow writes colours; or .npy for numbers: `data` of
            what the picture shows, the pixels themselves if there is none.

        Raises
        ------
        ImportError
            If pillow is needed and is not installed.
        ValueError
            If the ending is not known.
        OSError
            If the file cannot be written.
        """
        check_picture_path(path)
        file, stream = Path(path), io.BytesIO()
        if file.suffix.lower() == NUMBERS:
            np.save(stream, self.data.get(self.shade, self.pixels))
        else:
            need_pillow().fromarray(self.pixels).save(stream, format=_format_of(file))
        replace_file(os.fspath(path), iter([np.frombuffer(stream.getbuffer(), np.uint8)]))

    def png(self, widest: int | None = None) -> bytes:
        """Return the picture as the bytes of a PNG file.

        Parameters
        ----------
        widest : int, optional
            Make it smaller where it is wider than so many pixels.

        Raises
        ------
        ImportError
            If pillow is not installed.
        """
        image = need_pillow().fromarray(self.pixels)
        if widest is not None and image.width > widest:
            image = image.resize((widest, max(1, round(image.height * widest / image.width))))
        stream = io.BytesIO()
        image.save(stream, format="png")
        return stream.getvalue()

    def _repr_png_(self) -> bytes:
        """Show the picture in notebooks."""
        return self.png(WIDEST)

    def _repr_html_(self) -> str:
        """Show the picture in notebooks, with a line below that tells what it is."""
        code = base64.b64encode(self._repr_png_()).decode("ascii")
        style = "font: 12px monospace; color: gray"
        return (
            f'<figure style="margin: 0"><img alt="" src="data:image/png;base64,{code}">'
            f'<figcaption style="{style}">{html.escape(repr(self))}</figcaption></figure>'
        )

    def __repr__(self) -> str:
        height, width = self.pixels.shape[:2]
        told = [f"{width} x {height} pixels{self.shade and f' of {self.shade}'}"]
        if self.hottest is not None:
            told.append(f"white for {self.hottest:.4g} visits and more")
        if self.rays:
            told.append(f"{self.rays} rays in {self.seconds:.3g} s")
        if self.data:
            told.append(f"data of {', '.join(self.data)}")
        return f"Picture({', '.join(told)})"


def check_picture_path(path: str | os.PathLike[str]) -> None:
    """Raise if no picture can be written to a path, before any work is done for it."""
    file = Path(path)
    if file.suffix.lower() != NUMBERS and _format_of(file) is None:
        raise ValueError(f"cannot write {file}: unknown picture format {file.suffix!r}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {file.parent}")
    if file.is_dir():
        raise IsADirectoryError(f"cannot write {file}: it is a folder")


def _format_of(file: Path) -> str | None:
    """Return pillow's name of the format that an ending tells; None if it writes none such."""
    image = need_pillow()
    kind: str | None = image.registered_extensions().get(file.suffix.lower())
    try:
        # Some are known and cannot be written, or hold no colours: only the attempt tells.
        image.new("RGB", (1, 1)).save(io.BytesIO(), format=kind or "")
    except (KeyError, OSError, ValueError):
        return None
    return kind


def need_pillow() -> Any:
    """Return the module that knows picture files."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError('pictures need pillow: pip install "raybvh[cli]"') from error
    return Image
