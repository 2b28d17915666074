"""A closed, smooth, twisting sculpture, and the geodesic sphere it starts from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]

