"""Saved trees that have the checksums of another tree."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.io.container import HEADER_SIZE
from bvh.io.file_formats import entries_of, unpacked
from tests.cases.families import sphere


def with_checksum(data: bytes, at: int, wanted: int) -> bytes:
    """Change four bytes so that the CRC-32 is one that is wanted.

    Each bit that is changed changes the same bits of the CRC, whatever the others are.
    """

    def changed(bits: int) -> bytes:
        four = int.from_bytes(data[at : at + 4], "little") ^ bits
        return data[:at] + four.to_bytes(4, "little") + data[at + 4 :]

    before, rows = zlib.crc32(data), list[tuple[int, int]]()
    left, chosen = before ^ wanted, 0
    for bit in range(32):
        effect, bits = zlib.crc32(changed(1 << bit)) ^ before, 1 << bit
        for other, others in rows:
            if effect ^ other < effect:
                effect, bits = effect ^ other, bits ^ others
        rows.append((effect, bits))
        rows.sort(reverse=True)
    for effect, bits in rows:
        if left ^ effect < left:
            left, chosen = left ^ effect, chosen ^ bits
    return changed(chosen)


def forged(file: bytes) -> bytes:
    """Return the file of a sound tree over a sphere that differs, and has the same header.

    A vertex is moved, too little to change nodes or leaves. The last one must be part of no face:
    any four of its bytes make the checksum what it was.
    """
    header = unpacked(file[:HEADER_SIZE], len(file))
    entry = next(entry for entry in entries_of(header) if entry.name == "points")
    begin, end = entry.offset, entry.offset + entry.size
    points = bytearray(file[begin:end])
    # The first six are corners of the box.
    points[24 * 7 + 2] ^= 1
    changed = with_checksum(bytes(points), len(points) - 8, zlib.crc32(file[begin:end]))
    assert zlib.crc32(changed) == zlib.crc32(file[begin:end])
    return file[:begin] + changed + file[end:]


def forgeable_sphere() -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mesh of a sphere, and a vertex that is part of no face."""
    vertices, faces = sphere(2)
    return np.append(vertices, [[0.5, 0.5, 0.5]], axis=0), faces
