"""Searches and results as functions of JAX, with derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import jax
    import jax.numpy as jnp
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bvh.jax needs JAX: install it as https://docs.jax.dev/en/latest/installation.html says, "
        "for example with 'pip install jax'",
        name=error.name,
    ) from error

from bvh.gradients import formulas
from bvh.gradients.libraries import ArrayLibrary, Four
from bvh.gradients.queries import DifferentiableQueries
from bvh.gradients.searches import TreeSearch, plain_memory

Arrays = tuple[jax.Array, ...]

# A primitive, as it counts as linear and is not: JAX would refuse to transpose the `where` in it.
bounded_p = Primitive("bvh_bounded")


@bounded_p.def_impl
def _in_range(values: jax.Array, *, axes: int) -> jax.Array:
    return formulas.in_range(jnp, values, axes)


def bounded(values: jax.Array, axes: int) -> jax.Array:
    """Return what `formulas.in_range` does."""
    found: jax.Array = bounded_p.bind(values, axes=axes)
    return found


def _batch(args: Sequence[jax.Array], dims: Sequence[int], *, axes: int) -> tuple[jax.Array, int]:
    return bounded(jnp.moveaxis(args[0], dims[0], 0), axes), 0


bounded_p.def_abstract_eval(lambda values, *, axes: values)
mlir.register_lowering(bounded_p, mlir.lower_fun(_in_range, multiple_results=False))
ad.deflinear2(bounded_p, lambda gradient, _, *, axes: [bounded(gradient, axes)])
batching.primitive_batchers[bounded_p] = _batch

LIBRARY = ArrayLibrary[jax.Array](jnp, jax.lax.stop_gradient, bounded, lambda: True)

# Compiled as a whole, as each step on its own would be compiled, too.
push_hit = jax.jit(partial(formulas.push_hit, LIBRARY))
push_point = jax.jit(partial(formulas.push_point, LIBRARY), static_argnums=4)


@jax.custom_jvp
def hitting(
    origins: jax.Array, directions: jax.Array, corners: jax.Array, t: jax.Array, u: jax.Array,
    v: jax.Array, hit: jax.Array,
) -> Four[jax.Array]:  # fmt: skip
    """Return t, u and v of hits as they are, and the position, with derivatives."""
    first, second = u[..., None], v[..., None]
    weights = 1.0 - first - second, first, second
    return t, u, v, sum(weights[i] * corners[..., i, :] for i in range(3))


@hitting.defjvp
def _(primals: Arrays, tangents: Arrays) -> tuple[Four[jax.Array], Four[jax.Array]]:
    results = hitting(*primals)
    _, directions, corners, _, _, _, hit = primals
    return results, push_hit(directions, corners, results[:3], hit, tuple(tangents[:3]))


@partial(jax.custom_jvp, nondiff_argnums=(7,))
def approaching(
    points: jax.Array, corners: jax.Array, distance: jax.Array, position: jax.Array, u: jax.Array,
    v: jax.Array, hit: jax.Array, signed: bool,
) -> Four[jax.Array]:  # fmt: skip
    """Return distance, position, u and v of closest points as they are, with derivatives."""
    return distance, position, u, v


@approaching.defjvp
def _(signed: bool, primals: Arrays, tangents: Arrays) -> tuple[Four[jax.Array], Four[jax.Array]]:
    results = approaching(*primals, signed)
    points, corners, hit = primals[0], primals[1], primals[6]
    found = results[0], results[2], results[3]
    return results, push_point(points, corners, found, hit, signed, tuple(tangents[:2]))


class JaxQueries(DifferentiableQueries[jax.Array]):
    """The queries of `bvh.jax`."""

    words: ClassVar = {
        "array": "array_like",
        "result": "Array",
        "refusals": """
RuntimeError
    If JAX has no float64. Where vertices are not the tree's, and in a compiled function other
    errors of values, it is JAX that raises one, with the text of the error.""",
    }
    preparation = '>>> jax.config.update("jax_enable_x64", True)\n'
    library = LIBRARY
    hitting = staticmethod(hitting)
    approaching = staticmethod(approaching)

    def reals(self, name: str, value: jax.Array | ArrayLike) -> jax.Array:
        """Return numbers as float64; raise where JAX has none."""
        if not jax.config.jax_enable_x64:
            raise RuntimeError(
                "bvh.jax needs float64, which JAX has switched off: call "
                "jax.config.update('jax_enable_x64', True) at the start of the program, or set "
                "JAX_ENABLE_X64=1"
            )
        try:
            array = jnp.asarray(plain_memory(value))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must be an array of numbers: {error}") from None
        if array.dtype.kind not in "iuf" and array.dtype != jnp.bfloat16:
            raise TypeError(f"{name} must be real numbers, got an array of {array.dtype}")
        return array.astype(jnp.float64)

    def search(
        self, search: TreeSearch, arguments: Sequence[jax.Array | None], shape: tuple[int, ...]
    ) -> Sequence[jax.Array]:
        """Return what a search finds, by one call for a whole batch of batches."""
        tails = {0: (), 3: (3,), 9: (3, 3)}
        types = [
            jax.ShapeDtypeStruct(shape + tails[width], dtype) for width, dtype in search.types()
        ]

        def find(*arrays: jax.Array) -> Sequence[NDArray[np.generic]]:
            numbers = [np.asarray(array) for array in arrays]
            return search(*numbers) if search.moving else search(None, *numbers)

        fixed = (jax.lax.stop_gradient(x) for x in arguments if x is not None)
        found: Sequence[jax.Array] = jax.pure_callback(
            find, types, *fixed, vmap_method="expand_dims"
        )
        return found

    def summable(self, rows: jax.Array) -> jax.Array:
        """Return rows of three, whose gradients, sums over all queries, are in range."""
        return bounded(rows, 1)
