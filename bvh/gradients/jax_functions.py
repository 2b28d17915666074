"""Searches and results as functions of JAX, with derivatives."""

from functools import partial
from typing import ClassVar

import numpy as np

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
from bvh.gradients.boundaries import WINDING_RULE
from bvh.gradients.queries import DifferentiableQueries
from bvh.gradients.searches import plain_memory

# This primitive is declared linear, as JAX cannot transpose a test of values in `where`.
finite_p = Primitive("bvh_zero_unless_finite")


@finite_p.def_impl
def _compute(values, *, axes):
    """Return `formulas.zero_unless_finite` of values: what the primitive computes."""
    return formulas.zero_unless_finite(jnp, values, axes)


def zero_unless_finite(values, axes):
    """Return `formulas.zero_unless_finite` over the last `axes` axes, as a linear function."""
    return finite_p.bind(values, axes=axes)


def _batch(args, dims, *, axes):
    """Return (the result for a batch of values, 0): axis dims[0] of the batch becomes axis 0."""
    # In front, it is not among the last `axes` axes, over which values become 0 together.
    return zero_unless_finite(jnp.moveaxis(args[0], dims[0], 0), axes), 0


finite_p.def_abstract_eval(lambda values, *, axes: values)
mlir.register_lowering(finite_p, mlir.lower_fun(_compute, multiple_results=False))
ad.deflinear2(finite_p, lambda gradient, _, *, axes: [finite_p.bind(gradient, axes=axes)])
batching.primitive_batchers[finite_p] = _batch

LIBRARY = formulas.ArrayLibrary(jnp, jax.lax.stop_gradient, zero_unless_finite, lambda: True)

# Compiled together, as JAX would otherwise compile each step.
PUSHES = {
    rule: jax.jit(partial(rule.push, LIBRARY))
    for rule in (formulas.HIT_RULE, *formulas.POINT_RULES, WINDING_RULE)
}


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def differentiable(rule, *given):
    """Return the results in `given` (see `Rule.saved`), with the derivatives of `rule`."""
    return given[rule.moving : rule.moving + rule.results]


@differentiable.defjvp
def _(rule, primals, tangents):
    """Return the results of `differentiable`, and their tangents by those of its arguments."""
    results = differentiable(rule, *primals)
    slopes = tuple(tangents[: rule.moving])
    return results, PUSHES[rule](*rule.saved(primals, results), slopes)


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
    differentiable = staticmethod(differentiable)

    def reals(self, name, value):
        """Return the argument `value` as float64; raise an error where JAX has no float64."""
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

    def constant(self, find):
        """Return the result of `find`, which a compiled function calls whenever it runs."""
        # The first call tells the shape, which is always the same.
        return jax.pure_callback(find, jax.ShapeDtypeStruct(find().shape, np.float64))

    def search(self, search, arguments, shape):
        """Return the results of a search, without derivatives; under `vmap` by one call for all.

        `arguments` are vertices or None, then those of the query, whose common shape is `shape`.
        """
        # Shape of a row by its size in `types`.
        tails = {0: (), 3: (3,), 9: (3, 3)}
        types = [jax.ShapeDtypeStruct(shape + tails[n], dtype) for n, dtype in search.types()]

        def find(*arrays):
            # JAX passes arrays alone: vertices of None are left out, and put back here.
            numbers = map(np.asarray, arrays)
            return search(*numbers) if search.moving else search(None, *numbers)

        fixed = (jax.lax.stop_gradient(x) for x in arguments if x is not None)
        return jax.pure_callback(find, types, *fixed, vmap_method="expand_dims")
