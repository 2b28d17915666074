"""`Selection`: result of selecting faces, vertices or instances by a region of the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Result of a selection by leaf: the ids of row i are ``ids[offsets[i] : offsets[i + 1]]``.

    Attributes
    ----------
    what : {"faces", "vertices", "instances"}
    instance_id : ndarray of int32, shape (k,)
        Outermost instances, ascending. With nested scenes an instance has a row for each of its
        leaves, except for ``what="instances"``.
    leaf : ndarray of int32, shape (k,)
        Rows of ``scene.leaves``, ascending; the first leaf of an instance for
        ``what="instances"``.
    names : tuple of str or None, length k
        Names of the leaves' instances.
    ids : ndarray of int32, shape (m,)
        Ids of faces (or boxes), or of vertices, ascending in each row; none for
        ``what="instances"``.
    offsets : ndarray of int64, shape (k + 1,)
    """

    what: str
    instance_id: NDArray[np.int32]
    leaf: NDArray[np.int32]
    names: tuple[str | None, ...]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of faces, vertices or instances that are selected."""
        return len(self.leaf) if self.what == "instances" else len(self.ids)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        """Return the ids of one row."""
        if not -len(self.leaf) <= row < len(self.leaf):
            raise IndexError(f"row must be below {len(self.leaf)}, got {row}")
        row %= len(self.leaf)
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each id, shape (m,)."""
        return np.repeat(np.arange(len(self.leaf), dtype=np.int64), np.diff(self.offsets))

    def __repr__(self) -> str:
        if self.what == "instances":
            return f"Selection({len(self)} instances)"
        owners = len(np.unique(self.instance_id))
        return f"Selection({len(self)} {self.what} of {owners} instances)"
