"""What a user's filter says of a hit."""

from __future__ import annotations

from bvh.jit import by_type, types
from bvh.placed import Placed, leaf_of, prim_of
from bvh.simd import peek
from bvh.user_calls import call_filter, call_scene_filter


def accepts(accept, primitives, ray, prim, t, u, v, data):
    """Tell whether a filter accepts a hit: one at an address, 0 for none, or a function itself."""


def _call(accept, primitives, ray, prim, t, u, v, data):
    return accept == 0 or call_filter(accept, (ray, prim, t, u, v, data))


def _call_in_scene(accept, primitives, ray, prim, t, u, v, data):
    if accept == 0:
        return True
    owner = peek(primitives.owners, leaf_of(prim))
    return call_scene_filter(accept, (ray, owner, prim_of(prim), t, u, v, data))


def _ask(accept, primitives, ray, prim, t, u, v, data):
    return bool(accept(ray, prim, t, u, v, data))


def _ask_in_scene(accept, primitives, ray, prim, t, u, v, data):
    owner = peek(primitives.owners, leaf_of(prim))
    return bool(accept(ray, owner, prim_of(prim), t, u, v, data))


@by_type(accepts)
def _choose(accept, primitives, ray, prim, t, u, v, data):
    in_scene = primitives.instance_class is Placed
    if isinstance(accept, types.Dispatcher):
        return _ask_in_scene if in_scene else _ask
    return _call_in_scene if in_scene else _call


def has_filter(accept):
    """Tell whether there is a filter."""


@by_type(has_filter, inline=True)
def _choose_whether(accept):
    if isinstance(accept, types.Dispatcher):
        return lambda accept: True
    return lambda accept: accept != 0
