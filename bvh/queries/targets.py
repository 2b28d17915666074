"""Target of a query: the arrays of a tree or of a scene."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Target(NamedTuple):
    """Arrays of the tree or scene that a query searches.

    Attributes
    ----------
    arrays : TreeArrays
        Of a tree, or of a scene's top level.
    split : bool
        A primitive may be in several leaves of a tree.
    owner : object
        Keeps alive, while kernels run, arrays that they know by their addresses only.
    mask : int
        Bits that choose among the instances of a scene, as int32; for queries of points.
    metrics : ndarray of float64, optional
        Lengths in instances against lengths in the world; for queries of points.
    """

    arrays: Any
    split: bool = True
    owner: object = None
    mask: int = -1
    metrics: NDArray[np.float64] | None = None
