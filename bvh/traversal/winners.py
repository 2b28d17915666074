"""The primitive that a ray of a block has found: an id, or a scene's code, in float32 lanes."""

from __future__ import annotations

import numpy as np

from bvh.jit import by_type
from bvh.placed import Placed, code_of, leaf_of, prim_of
from bvh.simd import WIDTH, peek_int, poke_int
from bvh.traversal.block import PRIM, PRIM_LEAF


def winner(primitives, block, r):
    """Return the id or code of what ray r has found; -1 if nothing."""


def name_winner(primitives, block, r, prim):
    """Keep the id or code of what ray r has found."""


def _id_found(primitives, block, r):
    return np.int64(peek_int(block.lanes, r + PRIM * WIDTH))


def _code_found(primitives, block, r):
    prim = np.int64(peek_int(block.lanes, r + PRIM * WIDTH))
    if prim < 0:
        return prim
    return code_of(peek_int(block.lanes, r + PRIM_LEAF * WIDTH), prim)


@by_type(winner, inline=True)
def _choose_winner(primitives, block, r):
    return _code_found if primitives.instance_class is Placed else _id_found


def _name_id(primitives, block, r, prim):
    poke_int(block.lanes, r + PRIM * WIDTH, np.int32(prim))


def _name_code(primitives, block, r, prim):
    poke_int(block.lanes, r + PRIM * WIDTH, np.int32(prim_of(prim)))
    poke_int(block.lanes, r + PRIM_LEAF * WIDTH, np.int32(leaf_of(prim)))


@by_type(name_winner, inline=True)
def _choose_name(primitives, block, r, prim):
    return _name_code if primitives.instance_class is Placed else _name_id
