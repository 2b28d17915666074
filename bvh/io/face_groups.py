"""Groups of faces as they are given: checked, and those of polygons and cells by triangle."""

import os
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import ArrayLike, NDArray

from bvh.io.meshes import Surface
from bvh.runtime.arguments import bit_masks, owned


def face_groups(groups: ArrayLike, count: int) -> NDArray[np.uint32]:
    """Return the checked bits of each of `count` faces."""
    bits = bit_masks("groups", groups)
    if bits.shape not in ((), (count,)):
        raise _other_shape(f"of {count} faces", bits.shape)
    return owned(np.broadcast_to(bits, (count,)), np.uint32)


def groups_of_triangles(groups: ArrayLike | None, surface: Surface) -> ArrayLike | None:
    """Return the bits of triangles, from those of the faces or cells that they are parts of."""
    if groups is None or surface.face_ids is None:
        return groups
    bits = bit_masks("groups", groups)
    if bits.ndim == 0:
        return bits
    most = int(surface.face_ids.max(initial=-1))
    if bits.ndim != 1 or len(bits) <= most:
        raise _other_shape(f"face, which are numbered up to {most}", bits.shape)
    return bits[surface.face_ids]


def _other_shape(each: str, shape: tuple[int, ...]) -> ValueError:
    """Return the error for a wrong shape of groups; `each` tells what must have a number."""
    what = f"groups must be one number, or one for each {each}"
    return ValueError(f"{what}, got an array of shape {shape}")


class GroupWindows:
    """Bits of faces, read and checked some at a time, as not all may fit into memory.

    A .npy file is mapped again for each read, which releases the pages of the one before.
    """

    def __init__(self, groups: ArrayLike | str | os.PathLike[str]) -> None:
        self._path = os.fspath(groups) if isinstance(groups, str | os.PathLike) else None
        # An array, perhaps a memory map, is checked as it is read; anything else at once.
        given: Any = groups if self._path is None else self._mapped()
        if type(given) not in (np.ndarray, np.memmap):
            given = bit_masks("groups", given)
        if given.dtype.kind not in "iu" and given.size:
            raise TypeError(f"groups must be integers, got {given.dtype}")
        if given.ndim > 1:
            raise _other_shape("triangle", given.shape)
        # The bits of all faces, if they are the same, and the number of faces; else None, and -1.
        self._one = bit_masks("groups", given) if given.ndim == 0 else None
        self._count = len(given) if given.ndim else -1
        self._array = given if self._path is None else None

    def rows(self, begin: int, count: int) -> NDArray[np.uint32]:
        """Return the bits of `count` faces from `begin`."""
        if self._one is not None:
            return np.broadcast_to(self._one, count)
        if begin + count > self._count:
            raise ValueError(f"groups must be one for each triangle: there are only {self._count}")
        array = self._mapped() if self._array is None else self._array
        return bit_masks("groups", array[begin : begin + count])

    def check_count(self, count: int) -> None:
        """Raise a ValueError unless these are the bits of `count` faces."""
        if self._count not in (-1, count):
            raise _other_shape(f"of {count} triangles", (self._count,))

    def _mapped(self) -> NDArray[Any]:
        """Map the file."""
        assert self._path is not None
        if not os.path.isfile(self._path):
            raise FileNotFoundError(f"groups: no such file: {self._path}")
        try:
            return open_memmap(self._path, mode="r")
        except Exception as error:
            # NumPy reads a header as Python's literals, and raises whatever that does.
            raise ValueError(f"groups, {self._path}: is no .npy file: {error!r}") from None
