"""Points in which two faces cross."""

from __future__ import annotations

import numpy as np
import pytest

from bvh.compat.collisions.contacts import crossed


@pytest.mark.parametrize("scale", [1.0, 2.0**-10, 2.0**-40, 2.0**40])
def test_crossings_at_all_scales(scale: float) -> None:
    """Points where faces cross, in proportion; of faces that are apart there are none."""
    first = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]])
    second = np.array([[[0.2, 0.2, -0.5], [0.3, 0.2, 0.5], [0.2, 0.4, 0.5]]])
    for lift, wanted in ((0.0, True), (1.0, False)):
        other = second + [0.0, 0.0, lift]
        points, on_both = crossed(first * scale, other * scale)
        assert on_both.tolist() == [wanted]
        np.testing.assert_array_equal(points, crossed(first, other)[0] * scale)
