"""What a user's filter says of a hit."""

from __future__ import annotations

from bvh.jit import by_type, types


def accepts(accept, ray, prim, t, u, v, data):
    """Tell whether a filter accepts a hit; no filter (None) accepts all."""


@by_type(accepts)
def _choose(accept, ray, prim, t, u, v, data):
    if isinstance(accept, types.NoneType):
        return lambda accept, ray, prim, t, u, v, data: True
    return lambda accept, ray, prim, t, u, v, data: bool(accept(ray, prim, t, u, v, data))
