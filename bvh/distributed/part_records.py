"""What the index of a folder has of a part: its box, counts, bits and checksums."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bvh.io.container import DIGEST_SIZE
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import ALL_BITS


@dataclass(frozen=True)
class PartRecord:
    """What the index has of a part.

    Attributes
    ----------
    triangles : int
    bounds : list of six floats or None
        Lower and upper corner; None if no triangle is valid.
    tree_bytes, ids_bytes : int
        Sizes of the files.
    tree_header, ids_digest : str
        Checksum in the header of the tree's file, which covers those of its arrays, and checksum of
        the whole file of ids.
    groups : int or None
        All bits that valid triangles have, so that a query whose mask has none of them opens no
        file; None if no triangle of the mesh was given any.
    """

    triangles: int
    bounds: list[float] | None
    tree_bytes: int
    tree_header: str
    ids_bytes: int
    ids_digest: str
    groups: int | None = None


def row_of(part: PartRecord) -> dict[str, Any]:
    """Return a record as the index has it: without groups, as before there were any."""
    row = asdict(part)
    if part.groups is None:
        del row["groups"]
    return row


def box_of(tree: BVH) -> list[float] | None:
    """Return the box of a part, as the index has it."""
    box: list[float] = tree.bounds.reshape(-1).tolist()
    return box if np.isfinite(box).all() else None


def bits_of(tree: BVH) -> int | None:
    """Return all bits that valid triangles of a part have, as the index has them."""
    if tree.groups is None:
        return None
    ids = tree.arrays.nodes.ids
    return int(np.bitwise_or.reduce(tree.groups[ids[ids >= 0]], initial=np.uint32(0)))


def check_record(part: PartRecord) -> None:
    """Raise a ValueError or TypeError unless a part can be what the index says."""
    for digest in (part.tree_header, part.ids_digest):
        # They become names of files.
        if not re.fullmatch(f"[0-9a-f]{{{2 * DIGEST_SIZE}}}", digest):
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


def whole(*numbers: Any) -> bool:
    """Return whether all are integers from 0 that int64 holds."""
    return all(type(number) is int and 0 <= number < 2**63 for number in numbers)
