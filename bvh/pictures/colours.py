"""Colour maps that all pictures share, with components from 0 to 1."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Colours of a ray's cost, from black for 0 to white for the cost that `hottest_of` returns, which a
# share of at least HOT_SHARE of all costs do not exceed.
HEAT = np.array([[0.0, 0.0, 0.05], [0.1, 0.1, 0.6], [0.7, 0.1, 0.4], [1.0, 0.6, 0.1], [1, 1, 0.9]])
HOT_SHARE = 0.99

# Colours of distances, from near to far, ever darker: light sand, green, sea, night.
RANGE = np.array([
    [0.98, 0.91, 0.62], [0.55, 0.80, 0.50], [0.16, 0.60, 0.58], [0.19, 0.36, 0.55],
    [0.22, 0.14, 0.38],
])  # fmt: skip

# Background, from the upper border of the picture to the lower one.
SKY = np.array([[0.98, 0.975, 0.965], [0.90, 0.89, 0.87]])


def ramp(share: Floats, colours: Floats) -> Floats:
    """Return colours (..., 3) at shares (...), from 0 to 1, of the way along a list, (n, 3)."""
    position = np.clip(share, 0.0, 1.0) * (len(colours) - 1)
    steps = np.arange(len(colours))
    return np.stack([np.interp(position, steps, colours[:, k]) for k in range(3)], axis=-1)


def in_bytes(colours: Floats) -> NDArray[np.uint8]:
    """Return colours with components from 0 to 1 as bytes of pixels, from 0 to 255."""
    return np.clip(colours * 255.0 + 0.5, 0.0, 255.0).astype(np.uint8)


def heat(cost: Floats, hottest: float) -> Floats:
    """Return the colours (..., 3) of costs (...): black for 0, white from `hottest` on."""
    return ramp(cost / hottest, HEAT)


def hottest_of(cost: Floats) -> float:
    """Return the cost to show as white: a whole number, at least 1, that at most 1 % exceed."""
    return max(1.0, float(np.ceil(np.quantile(cost, HOT_SHARE)))) if cost.size else 1.0


def sky(share: Floats) -> Floats:
    """Return background colours (..., 3) for shares (...) of the picture's height, from the top."""
    return np.asarray(SKY[0] * (1.0 - share[..., None]) + SKY[1] * share[..., None])


def instance_colours(ids: NDArray[np.integer]) -> Floats:
    """Return a colour for each instance id: hues of consecutive ids are a golden angle apart."""
    hue = (0.08 + 0.6180339887498949 * ids) % 1.0
    # Three saturations and values, so that close hues differ.
    saturation = np.array([0.62, 0.85, 0.45])[ids % 3]
    value = np.array([0.98, 0.80, 0.90])[ids % 3]
    # Conversion from hue, saturation and value (Smith 1978, "Color gamut transform pairs"): a
    # component is value * (1 - saturation * part), whose part follows from its position in the hue
    # circle of length 6; red, green and blue start at 5, 3 and 1.
    position = (np.array([5.0, 3.0, 1.0]) + 6.0 * hue[..., None]) % 6.0
    part = np.clip(np.minimum(position, 4.0 - position), 0.0, 1.0)
    return np.asarray(value[..., None] * (1.0 - saturation[..., None] * part))


def face_colours(ids: NDArray[np.integer], leaf: NDArray[np.integer]) -> Floats:
    """Return a colour for each face: a hash of its id and the index of its leaf, not too dark."""
    # Multiply by the golden ratio's odd 32-bit fraction and take three bytes (Knuth). Another large
    # odd number gives equal ids in different leaves different colours.
    numbers = ids.astype(np.uint32) + leaf.astype(np.uint32) * np.uint32(2246822519)
    mixed = (numbers + np.uint32(1)) * np.uint32(2654435769)
    shifts = np.array([24, 16, 8], np.uint32)
    return np.asarray(0.2 + 0.75 * ((mixed[..., None] >> shifts) & np.uint32(255)) / 255.0)


def texture_colours(uv: Floats) -> Floats:
    """Return colours (..., 3) of texture coordinates (..., 2), in a checkerboard of sixteenths.

    Red grows with u and green with v, from 0 to 1 in each unit square.
    """
    inside = uv - np.floor(uv)
    squares = np.floor(16.0 * uv).sum(axis=-1) % 2.0
    colours = np.stack([inside[..., 0], inside[..., 1], np.full(uv.shape[:-1], 0.35)], axis=-1)
    return np.asarray(0.1 + 0.8 * colours * (0.8 + 0.2 * squares)[..., None])
