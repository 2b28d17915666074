"""Legend of a picture of costs, drawn into it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bvh.pictures.colours import HEAT, ramp
from bvh.pictures.picture import Picture, need_pillow

LABEL = "nodes and groups a ray visits"
PAPER, INK = (18, 20, 26), (235, 238, 242)
# Smaller pictures have no legend.
MIN_WIDTH, MIN_HEIGHT = 300, 120
# Height of the text in pictures of the second height, in proportion for taller ones.
TEXT_HEIGHT, OF_HEIGHT = 11, 600
# Width of the legend in heights of its text, at most.
LETTERS = 26


def with_legend(picture: Picture) -> Picture:
    """Return a picture of costs with a legend in its lower left corner, if it is large enough.

    Parameters
    ----------
    picture : Picture
        A picture of anything else is returned unchanged.

    Raises
    ------
    ImportError
        If pillow is not installed.
    """
    height, width = picture.pixels.shape[:2]
    if picture.hottest is None or width < MIN_WIDTH or height < MIN_HEIGHT:
        return picture
    image = need_pillow().fromarray(picture.pixels)
    # Never wider than the picture.
    text = max(TEXT_HEIGHT, min(TEXT_HEIGHT * height // OF_HEIGHT, width // LETTERS))
    font, pad = _font(text), text // 2
    ends = ("0", LABEL, f"{picture.hottest:.4g}+")
    sizes = [int(np.ceil(font.getlength(end))) for end in ends]
    inner = sum(sizes) + 4 * pad
    line = int(np.ceil(1.3 * text))
    left, top = pad, height - 4 * pad - 2 * line
    draw = _draw(image)
    draw.rectangle((left, top, left + inner + 2 * pad, height - pad - 1), fill=PAPER)
    shares = ramp(np.linspace(0.0, 1.0, inner), HEAT)
    strip = np.repeat((255.0 * shares).round().astype(np.uint8)[None], line, axis=0)
    image.paste(need_pillow().fromarray(strip), (left + pad, top + pad))
    below = top + pad + line + pad // 2
    offsets = (0, (inner - sizes[1]) // 2, inner - sizes[2])
    for offset, end in zip(offsets, ends, strict=True):
        draw.text((left + pad + offset, below), end, fill=INK, font=font)
    return replace(picture, pixels=np.array(image))


def _draw(image: Any) -> Any:
    from PIL import ImageDraw

    return ImageDraw.Draw(image)


def _font(size: int) -> Any:
    """Return the default font of pillow."""
    from PIL import ImageFont

    try:
        return ImageFont.load_default(size)
    except TypeError:
        # Before pillow 10.1 it has a fixed size.
        return ImageFont.load_default()
