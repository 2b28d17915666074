"""Boxes, grids, lathes and sweeps: the parts the generators put together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]
