"""Arguments and results of the `ray_*` functions, which test each ray against its own shape."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.runtime.arguments import common_shape, kernel_input, points, reals, shaped

Hit = TypeVar("Hit")


def intersect_each(
    kernel: Callable[..., None], result: type[Hit],
    rays: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], shapes: dict[str, NDArray[np.float64]],
    *options: int,
) -> Hit:  # fmt: skip
    """Intersect rays with shapes, one to one after broadcasting, by a kernel; return a `result`.

    `rays` are origins, directions, t_min and t_max. `shapes` are the vectors (..., k) that define
    the shapes, by the names of the caller's arguments. `result` is a class of named tuples of a
    flag and doubles, of the common leading shape. kernel(rays, shapes, *options, hits) takes rays
    and shapes in flat arrays, a row for each ray, and fills `hits`, a `result` of such arrays.
    """
    o, d = points("origins", rays[0]), points("directions", rays[1])
    low, high = reals("t_min", rays[2]), reals("t_max", rays[3])
    shape = common_shape(
        origins=o.shape[:-1], directions=d.shape[:-1], t_min=low.shape, t_max=high.shape,
        **{name: array.shape[:-1] for name, array in shapes.items()},
    )  # fmt: skip

    def flat(array: NDArray[np.float64], tail: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array broadcast to the common shape, then flat but for its last axes `tail`."""
        return kernel_input(np.broadcast_to(array, shape + tail).reshape(-1, *tail))

    batch = flat(o, (3,)), flat(d, (3,)), flat(low, ()), flat(high, ())
    named_tuple: Any = result
    numbers = [np.empty(len(batch[2])) for _ in named_tuple._fields[1:]]
    hits = named_tuple(np.empty(len(batch[2]), np.bool_), *numbers)
    kernel(batch, tuple(flat(a, a.shape[-1:]) for a in shapes.values()), *options, hits)
    return named_tuple(*shaped(shape, *hits))  # type: ignore[no-any-return]
