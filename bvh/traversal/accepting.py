"""What a user's filter says of a hit."""

from __future__ import annotations

from bvh.jit import by_type, types
from bvh.placed import Placed, leaf_of, prim_of
from bvh.simd import peek


def accepts(accept, primitives, ray, prim, t, u, v, data):
    """Tell whether a filter accepts a hit; no filter (None) accepts all."""


def _accept_all(accept, primitives, ray, prim, t, u, v, data):
    return True


def _ask(accept, primitives, ray, prim, t, u, v, data):
    return bool(accept(ray, prim, t, u, v, data))


def _ask_in_scene(accept, primitives, ray, prim, t, u, v, data):
    owner = peek(primitives.owners, leaf_of(prim))
    return bool(accept(ray, owner, prim_of(prim), t, u, v, data))


@by_type(accepts)
def _choose(accept, primitives, ray, prim, t, u, v, data):
    if isinstance(accept, types.NoneType):
        return _accept_all
    return _ask_in_scene if primitives.instance_class is Placed else _ask
