"""Base colours of meshes: factors, images and colours of vertices or faces, as trimesh has them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.io.formats.file_meshes import FACE_COLORS
from bvh.runtime.caller_warnings import warn_caller

if TYPE_CHECKING:
    from PIL.Image import Image

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

# An image of one white pixel.
WHITE = np.full((1, 1, 3), 255, np.uint8)
# The diffuse colour that trimesh gives a simple material without one.
UNSET = (102, 102, 102, 255)


@dataclass(frozen=True, eq=False, repr=False)
class Material:
    """The base colour of a mesh: the product of a factor and, if any, an image and colours.

    Opacity and gloss are ignored.

    Attributes
    ----------
    factor : ndarray of float64, shape (3,)
        Red, green and blue, linear, from 0 to 1.
    image : PIL.Image.Image or None
        In sRGB, from texture coordinates (0, 0), lower left, to (1, 1); beyond, it repeats.
    vertex_colors : ndarray of uint8, shape (n, 3), or None
    face_colors : ndarray of uint8, shape (m, 3), or None
    linear : bool
        Whether these colours are linear, as in glTF; else they are in sRGB.
    """

    factor: NDArray[np.float64]
    image: Image | None = None
    vertex_colors: NDArray[np.uint8] | None = None
    face_colors: NDArray[np.uint8] | None = None
    linear: bool = False

    def light_of(self, colours: NDArray[np.uint8]) -> Floats:
        """Return rows of `vertex_colors` or `face_colors` as linear values from 0 to 1."""
        return colours / 255.0 if self.linear else OF_BYTES[colours]

    def __repr__(self) -> str:
        parts = [f"factor {[round(x, 3) for x in self.factor.tolist()]}"]
        if self.image is not None:
            parts.append("image of {} x {}".format(*self.image.size))
        for name in ("vertex_colors", "face_colors"):
            if getattr(self, name) is not None:
                parts.append(f"{len(getattr(self, name))} {name}")
        return f"Material({', '.join(parts)})"


def linear_of(colours: ArrayLike) -> NDArray[np.float64]:
    """Return the linear values of sRGB values from 0 to 1 (IEC 61966-2-1)."""
    values = np.asarray(colours, np.float64)
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


# Linear values of all sRGB bytes.
OF_BYTES = linear_of(np.arange(256) / 255.0)


def srgb_of(light: ArrayLike) -> NDArray[np.float64]:
    """Return the sRGB values of linear values from 0 to 1."""
    values = np.asarray(light, np.float64)
    curve = 1.055 * np.maximum(values, 0.0031308) ** (1.0 / 2.4) - 0.055
    return np.where(values <= 0.0031308, 12.92 * values, curve)


def can_be_decoded(image: Any) -> bool:
    """Return whether a PIL image can be decoded; warn if not, as when its file is cut off."""
    try:
        image.load()
    except Exception as error:
        # Readers open images without decoding them. Pillow raises errors of many kinds.
        warn_caller(f"a texture is left out, as it cannot be decoded: {error}")
        return False
    return True


class Images:
    """Images of materials as arrays, each decoded once, when it is first hit."""

    def __init__(self) -> None:
        # (image, bytes) by the id() of the image, which is kept so that its id is not used again.
        self._decoded: dict[int, tuple[Any, NDArray[np.uint8]]] = {}
        self._lock = threading.Lock()

    def sample(self, image: Any, uv: Floats) -> Floats:
        """Return the linear colours (n, 3) of a PIL image at texture coordinates `uv` (n, 2).

        Colours are interpolated bilinearly between the centres of the four nearest pixels.
        """
        pixels = self._pixels(image)
        height, width = pixels.shape[:2]
        # Pixel k has its centre at k + 0.5. Rows begin at the top, where v is 1; the image repeats.
        x = (uv[:, 0] - np.floor(uv[:, 0])) * width - 0.5
        y = (np.ceil(uv[:, 1]) - uv[:, 1]) * height - 0.5
        left, top = np.floor(x), np.floor(y)
        # The weights of the right and of the lower pixels.
        right, down = (x - left)[:, None], (y - top)[:, None]
        first, second = ((left + k).astype(np.int64) % width for k in (0, 1))
        rows = [(top + k).astype(np.int64) % height for k in (0, 1)]
        above, below = (
            OF_BYTES[pixels[row, first]] * (1.0 - right) + OF_BYTES[pixels[row, second]] * right
            for row in rows
        )
        return np.asarray(above * (1.0 - down) + below * down)

    def _pixels(self, image: Any) -> NDArray[np.uint8]:
        """Return the bytes of an image, shape (height, width, 3)."""
        with self._lock:
            if id(image) not in self._decoded:
                # Without the image, a white pixel, which changes no colour.
                usable = image.convert("RGB") if can_be_decoded(image) else WHITE
                self._decoded[id(image)] = image, np.asarray(usable)
            return self._decoded[id(image)][1]


def base_colours(
    material: Material,
    uv: Floats | None,
    corners: Ints,
    prim: Ints,
    weights: Floats,
    images: Images,
) -> Floats:
    """Return the linear colours (n, 3) of hits on the faces `prim` (n,) of a mesh.

    `corners` (n, 3) are the vertices of these faces, `weights` (n, 3) the barycentric coordinates
    of the hits, and `uv` the texture coordinates of all vertices of the mesh, or None.
    """
    colours = np.tile(material.factor, (len(prim), 1))
    if material.image is not None and uv is not None:
        uv_of_hits = np.einsum("nkj,nk->nj", uv[corners], weights)
        # Vertices without texture coordinates have NaN.
        finite = np.isfinite(uv_of_hits).all(axis=1)
        colours[finite] *= images.sample(material.image, uv_of_hits[finite])
    if material.vertex_colors is not None:
        light = material.light_of(material.vertex_colors[corners])
        colours *= np.einsum("nkj,nk->nj", light, weights)
    if material.face_colors is not None:
        colours *= material.light_of(material.face_colors[prim])
    return colours


def material_of(mesh: Any, gltf: bool) -> Material | None:
    """Return the base colour of a mesh of trimesh; None if it has none.

    `gltf` says that the mesh is from a glTF file: its colours of vertices and faces are linear.
    """
    metadata: Any = getattr(mesh, "metadata", None)
    if isinstance(metadata, dict) and FACE_COLORS in metadata:
        return Material(np.ones(3), face_colors=_colours(metadata[FACE_COLORS], len(mesh.faces)))
    visual = getattr(mesh, "visual", None)
    kind = getattr(visual, "kind", None)
    if kind in ("vertex", "face"):
        count = len(mesh.vertices) if kind == "vertex" else len(mesh.faces)
        colours = _colours(getattr(visual, f"{kind}_colors", None), count)
        if colours is None:
            return None
        of_vertices, of_faces = (colours, None) if kind == "vertex" else (None, colours)
        return Material(np.ones(3), None, of_vertices, of_faces, gltf)
    look = getattr(visual, "material", None)
    if kind != "texture" or look is None:
        return None
    stored: Any = getattr(visual, "vertex_attributes", None)
    colours = _colours(stored.get("color"), len(mesh.vertices)) if hasattr(stored, "get") else None
    if hasattr(look, "baseColorFactor"):
        image, factor = look.baseColorTexture, _factor(look.baseColorFactor)
    elif hasattr(look, "diffuse"):
        # The diffuse colour is in sRGB. If trimesh left it unset, only the image counts.
        image, diffuse = look.image, tuple(np.asarray(look.diffuse).tolist())
        if image is None and diffuse == UNSET:
            return None
        factor = np.ones(3) if diffuse == UNSET else linear_of(_factor(look.diffuse))
    else:
        return None
    uv: Any = getattr(visual, "uv", None)
    fits = np.shape(uv)[:1] == (len(mesh.vertices),)
    image = image if hasattr(image, "convert") and fits else None
    return Material(factor, image, vertex_colors=colours, linear=gltf)


def _factor(value: ArrayLike) -> NDArray[np.float64]:
    """Return a colour of 3 or 4 bytes as red, green and blue from 0 to 1; all else is white."""
    if np.shape(value) not in ((3,), (4,)):
        return np.ones(3)
    return np.asarray(value, np.float64)[:3] / 255.0


def _colours(values: ArrayLike | None, count: int) -> NDArray[np.uint8] | None:
    """Return the colours of `count` vertices or faces as bytes (count, 3).

    None if `values` is not a table of `count` colours. Floats are clipped to 0..1, 16-bit integers
    lose their lower byte, and opacity is ignored.
    """
    array = np.asarray(values)
    if array.ndim != 2 or len(array) != count or array.shape[1] < 3 or count == 0:
        return None
    array = array[:, :3]
    if array.dtype.kind == "f":
        array = np.clip(255.0 * np.nan_to_num(array) + 0.5, 0.0, 255.0)
    elif array.dtype == np.uint16:
        array = array >> 8
    elif array.dtype.kind not in "iu":
        return None
    return np.array(array.astype(np.uint8))
