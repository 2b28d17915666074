"""One part's entry in the index: its box, counts, bits and digests."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from bvh.io.container import DIGEST_SIZE, HEADER_SIZE
from bvh.io.file_formats import box_in
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import ALL_BITS

# Bytes of a digest that no other content has, whoever looks for one.
CONTENT_DIGEST_SIZE = 32


@dataclass(frozen=True)
class PartRecord:
    """What the index has of a part."""

    triangles: int
    # Lower and upper corner; None if no triangle is valid.
    bounds: list[float] | None
    # Sizes of the files, and the checksum in the header of the tree's, which covers those of its
    # arrays. They find damage; other arrays can be made that have the same.
    tree_bytes: int
    tree_header: str
    ids_bytes: int
    # BLAKE2b of the file of ids: of 32 bytes, of 16 in indexes of versions 1 and 2.
    ids_digest: str
    # All bits that valid triangles have, so that a query whose mask has none of them opens no file;
    # None if no triangle of the mesh was given any.
    groups: int | None = None
    # BLAKE2b of the tree's file, 32 bytes; None in indexes of versions 1 and 2.
    tree_digest: str | None = None


def content_digest(pieces: Iterable[Any], size: int = CONTENT_DIGEST_SIZE) -> str:
    """Return the BLAKE2b of the bytes of a file, which no other file has."""
    digest = blake2b(digest_size=size)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def bits_of(tree: BVH) -> int | None:
    """Return all bits that valid triangles of a part have, as the index has them."""
    if tree.groups is None:
        return None
    ids = tree.arrays.nodes.ids
    return int(np.bitwise_or.reduce(tree.groups[ids[ids >= 0]], initial=np.uint32(0)))


def check_header(data: bytes, part: PartRecord) -> None:
    """Raise a ValueError unless the header of a tree's file is that of a part, with its box."""
    if data[HEADER_SIZE - DIGEST_SIZE :].hex() != part.tree_header:
        raise ValueError("is not the file of the index")
    kind, count, bounds = box_in(data)
    if kind != "triangles":
        raise ValueError("is not a tree over triangles")
    box = None if math.isnan(bounds[0]) else list(bounds)
    if count != part.triangles or box != part.bounds:
        raise ValueError("has another box, or other triangles, than the index says")


def check_record(part: PartRecord, has_content_digests: bool) -> None:
    """Raise a ValueError or TypeError unless a part can be what the index says."""
    size = CONTENT_DIGEST_SIZE if has_content_digests else DIGEST_SIZE
    sizes = [(part.tree_header, DIGEST_SIZE), (part.ids_digest, size)]
    if has_content_digests:
        sizes.append((part.tree_digest or "", size))
    elif part.tree_digest is not None:
        raise ValueError("is damaged: it has digests that its version does not know")
    for digest, size in sizes:
        # They become names of files.
        if not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", digest):
            raise ValueError("is damaged: a checksum is not one")
    box = part.bounds
    if box is not None:
        numbers = isinstance(box, list) and {type(x) for x in box} <= {int, float}
        if not (numbers and len(box) == 6 and np.isfinite(np.array(box, float)).all()):
            raise ValueError("is damaged: a box is not six numbers")
        if any(low > high for low, high in zip(box[:3], box[3:], strict=True)):
            raise ValueError("is damaged: the corners of a box are exchanged")
    counts = part.triangles, part.tree_bytes, part.ids_bytes
    if not (whole(*counts) and min(counts) > 0 and part.triangles < 2**31):
        raise ValueError("is damaged: a part has no triangles, or no bytes")
    bits = part.groups
    if not (bits is None or (whole(bits) and bits <= ALL_BITS)):
        raise ValueError("is damaged: groups are not 32 bits")


def whole(*numbers: object) -> bool:
    """Return whether all are integers from 0 that int64 holds."""
    return all(type(number) is int and 0 <= number < 2**63 for number in numbers)
