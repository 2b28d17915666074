"""Calls of kernels, whose undecided rays and points the CPU answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import KINDS, library_of, stream_of

Kinds = dict[str, type[np.generic]]


class Call:
    """Base class of a query of rays or points by `owner`, a tree or scene on a device.

    Kernels list the rays or points that they do not decide; the CPU answers these. `like` is the
    argument whose library the answers are in, None for numpy.
    """

    # The number of rays or points.
    count: int

    def __init__(self, owner: Any, *given: Any) -> None:
        self.owner, self.device, self.like = owner, owner.device, library_of(*given)
        # All kernels of the call, and the CPU, query this state, even if the tree changes.
        self.host, self.target = owner._state()

    def empty(self, found: Any, kinds: Kinds, count: int) -> Any:
        """Give the struct `found` new columns for `count` answers; return it."""
        for name, kind in kinds.items():
            dtype = wp.vec3d if name == "position" else KINDS[kind]
            setattr(found, name, wp.empty(count, dtype=dtype, device=self.device))
        return found

    def run(self, kernel: Any, found: Any, *inputs: Any) -> NDArray[np.int32]:
        """Run a kernel for all rays or points; return the indices of those it does not decide."""
        lost = wp.zeros(1, dtype=wp.int32, device=self.device)
        which = wp.empty(self.count, dtype=wp.int32, device=self.device)
        with stream_of(self.like, self.device):
            given = [self.target, *inputs, found, lost, which]
            wp.launch(kernel, self.count, inputs=given, device=self.device)
            self.owner.undecided = number = int(lost.numpy()[0])
            return np.sort(which[:number].numpy()) if number else np.empty(0, np.int32)

    def rows(self, array: Any, which: NDArray[np.int32]) -> NDArray[Any]:
        """Return rows of an array on the device; if it has one row for all, that one."""
        if array.shape[0] > 1:
            array = array[wp.array(which, dtype=wp.int32, device=self.device)].contiguous()
        found: NDArray[Any] = array.numpy()
        return found

    def write(self, found: Any, places: NDArray[np.int32], answers: dict[str, Any]) -> None:
        """Write the CPU's answers, by column, into the rows `places` of the struct `found`."""
        where = wp.array(places, dtype=wp.int32, device=self.device)
        with stream_of(self.like, self.device):
            for name, values in answers.items():
                column = getattr(found, name)
                fresh = wp.array(np.asarray(values), dtype=column.dtype, device=self.device)
                wp.copy(column[where], fresh)
