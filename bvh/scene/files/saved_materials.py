"""Materials in saved scenes: factors, colours, and images as PNG, each stored once.

====== ===== =====================================================================================
offset bytes materials
====== ===== =====================================================================================
0      4     m, the number of images
4      8 m   size in bytes of each image
...    32 n  of n trees with a material: factor (3 doubles); 3 flags (linear colours, colours of
             vertices, of faces) and a zero, a byte each; number of the image from 1, 0 for none
...          the images, PNG
...    3 k   k colours: of vertices, then of faces, of each material in turn
====== ===== =====================================================================================

The images are decoded when they are used. Their size is limited by Pillow (`MAX_IMAGE_PIXELS`).
"""

import io
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.materials import Material
from bvh.runtime.arguments import kernel_input
from bvh.runtime.caller_warnings import warn_caller

_RECORD = struct.Struct("<3d4BI")
# Modes of images in PNG; others become RGB.
MODES = ("1", "L", "LA", "I;16", "P", "RGB", "RGBA")


def packed_materials(materials: list[Material]) -> bytes:
    """Return materials as bytes: sizes of images, a record a material, images as PNG, colours."""
    # The number of each image by its id(): 1 for the first, 0 for one that cannot be saved.
    numbers: dict[int, int] = {}
    images: list[bytes] = []
    records, colours = [], []
    for material in materials:
        image = material.image
        if image is not None and id(image) not in numbers:
            data = _png(image)
            numbers[id(image)] = len(images) + 1 if data else 0
            images += [data] if data else []
        both = material.vertex_colors, material.face_colors
        given = [array is not None for array in both]
        factor = np.clip(material.factor, 0.0, 1.0)
        # A zero byte follows the three flags.
        records.append(_RECORD.pack(*factor, material.linear, *given, 0, numbers.get(id(image), 0)))
        colours += [np.asarray(array, np.uint8).tobytes() for array in both if array is not None]
    sizes = struct.pack(f"<I{len(images)}Q", len(images), *map(len, images))
    return b"".join([sizes, *records, *images, *colours])


def unpacked_materials(data: NDArray[np.uint8], counts: list[tuple[int, int]]) -> list[Material]:
    """Return the checked materials in `data`, the bytes that `packed_materials` returned.

    `counts` has the numbers (vertices, faces) of the mesh of each material, for its colours.
    """
    end = 0

    def taken(size: int) -> NDArray[np.uint8]:
        """Return the next `size` bytes of the data; ValueError if there are fewer."""
        nonlocal end
        begin, end = end, end + size
        if end > len(data):
            raise ValueError("is not valid: its materials are cut off")
        return data[begin:end]

    image_count = int.from_bytes(taken(4).tobytes(), "little")
    sizes = taken(8 * image_count).view("<u8")
    records = [_RECORD.unpack(taken(_RECORD.size).tobytes()) for _ in counts]
    # A record ends with the number of the image, 0 for none. An opened image takes twenty times the
    # memory of a small file, so unused ones are refused.
    if len({record[-1] for record in records} - {0}) < image_count:
        raise ValueError("is not valid: an image is not used")
    # Image 0 is none.
    images = [None, *(_image(taken(size)) for size in sizes.tolist())]
    found = []
    for (*factor, linear, vertices, faces, zero, image), rows in zip(records, counts, strict=True):
        valid = max(linear, vertices, faces) <= 1 and zero == 0 and image < len(images)
        if not (valid and all(0.0 <= x <= 1.0 for x in factor)):
            raise ValueError("is not valid: a material has a value that it cannot have")
        pairs = zip((vertices, faces), rows, strict=True)
        both = [kernel_input(taken(3 * n).reshape(-1, 3)) if given else None for given, n in pairs]
        found.append(Material(np.array(factor), images[image], both[0], both[1], linear == 1))
    if end < len(data):
        raise ValueError("is not valid: there is something behind its materials")
    if None in images[1:]:
        message = "images of materials are left out, as they need Pillow: pip install 'raybvh[cli]'"
        warn_caller(message)
    return found


def _png(image: Any) -> bytes:
    """Return an image as bytes of PNG; b"", with a warning, if it cannot be decoded."""
    stream = io.BytesIO()
    try:
        image = image if image.mode in MODES else image.convert("RGB")
        image.save(stream, "png")
    except Exception as error:
        # Readers do not decode images, which may be damaged.
        warn_caller(f"an image cannot be saved: {error}")
        return b""
    return stream.getvalue()


def _image(data: NDArray[np.uint8]) -> Any:
    """Return the image in `data`, bytes of a PNG, opened but not decoded; None without Pillow."""
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        return Image.open(io.BytesIO(data.tobytes()), formats=("PNG",))
    except Exception as error:
        raise ValueError(f"is not valid: an image in it cannot be opened: {error}") from None
