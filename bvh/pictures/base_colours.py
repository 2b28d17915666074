"""Base colours of what rays hit: of factors, images and colours of vertices or faces."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.materials import Material, linear_of

Floats = NDArray[np.float64]

# Linear values of all bytes.
OF_BYTES = linear_of(np.arange(256) / 255.0)


class Images:
    """Images of materials as arrays, each decoded once, when it is first hit."""

    def __init__(self) -> None:
        # By id(), with the image itself, so that the id stays its own.
        self._decoded: dict[int, tuple[Any, NDArray[np.uint8]]] = {}
        self._lock = threading.Lock()

    def sample(self, image: Any, uv: Floats) -> Floats:
        """Return the linear colours at texture coordinates (n, 2), between pixels bilinear."""
        pixels = self._pixels(image)
        height, width = pixels.shape[:2]
        # Rows from above; the image repeats.
        x = (uv[:, 0] - np.floor(uv[:, 0])) * width - 0.5
        y = (np.ceil(uv[:, 1]) - uv[:, 1]) * height - 0.5
        left, top = np.floor(x), np.floor(y)
        right, down = (x - left)[:, None], (y - top)[:, None]
        here, beyond = ((left + k).astype(np.int64) % width for k in (0, 1))
        rows = [(top + k).astype(np.int64) % height for k in (0, 1)]
        above, below = (
            OF_BYTES[pixels[row, here]] * (1.0 - right) + OF_BYTES[pixels[row, beyond]] * right
            for row in rows
        )
        return np.asarray(above * (1.0 - down) + below * down)

    def _pixels(self, image: Any) -> NDArray[np.uint8]:
        with self._lock:
            if id(image) not in self._decoded:
                self._decoded[id(image)] = image, np.asarray(image.convert("RGB"))
            return self._decoded[id(image)][1]


def base_colours(
    material: Material, uv: Floats | None, corners: NDArray[np.integer], prim: NDArray[np.integer],
    weights: Floats, images: Images,
) -> Floats:  # fmt: skip
    """Return the linear colours (n, 3) of hits on faces with corners and weights (n, 3)."""
    found = np.tile(material.factor, (len(prim), 1))
    if material.image is not None and uv is not None:
        at = np.einsum("nkj,nk->nj", uv[corners], weights)
        finite = np.isfinite(at).all(axis=1)
        found[finite] *= images.sample(material.image, at[finite])
    if material.vertex_colors is not None:
        bytes_of = material.vertex_colors[corners]
        found *= np.einsum("nkj,nk->nj", _linear(material, bytes_of), weights)
    if material.face_colors is not None:
        found *= _linear(material, material.face_colors[prim])
    return found


def _linear(material: Material, colours: NDArray[np.uint8]) -> Floats:
    return colours / 255.0 if material.linear else OF_BYTES[colours]
