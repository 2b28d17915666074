"""What two triangles in one plane share: at most a point, a segment, or an area; exact signs."""

from bvh.geometry.arithmetic.predicates import filtered_turn, orient2d
from bvh.geometry.pairs.common_polygons import overlap
from bvh.runtime.jit import inlined, kernel, stay_outlined

# What two triangles share.
POINT, SEGMENT, AREA = 0, 1, 2  # POINT: at most a point
# In place of these: one of the triangles has no area.
THIN = -1


@inlined
def _side(p, q, r):
    """Return the side of the line p, q, in 2D, that r is on: 1 left, -1 right, 0 on it."""
    if r == p or r == q:
        return 0
    side = filtered_turn(p, q, r)
    return side if side != 0 else orient2d(p, q, r)


@inlined
def _contact_beyond(p, q, turn, t):
    """Return what triangle t and one with the edge p, q share, if t is not on its inner side.

    The result is POINT or SEGMENT, or AREA if a corner of t is on the inner side of the edge: left
    if `turn` is 1, right if it is -1. All is in 2D.
    """
    s0 = turn * _side(p, q, t[0])
    if s0 > 0:
        return AREA
    s1 = turn * _side(p, q, t[1])
    if s1 > 0:
        return AREA
    s2 = turn * _side(p, q, t[2])
    if s2 > 0:
        return AREA
    if s0 + s1 + s2 < -1:
        return POINT
    # Two corners of t are on the line.
    r, s = (t[1], t[2]) if s0 < 0 else ((t[2], t[0]) if s1 < 0 else (t[0], t[1]))
    return SEGMENT if overlap(p, q, r, s) else POINT


@kernel
def flat_contact(a, b):
    """Return what two triangles in 2D share: POINT, SEGMENT or AREA; THIN if one has no area."""
    # If they share no area, the line of an edge of one of them separates them.
    stay_outlined()
    turn, turn2 = _side(*a), _side(*b)
    if turn == 0 or turn2 == 0:
        return THIN
    for _ in range(3):
        found = _contact_beyond(a[0], a[1], turn, b)
        if found == AREA:
            found = _contact_beyond(b[0], b[1], turn2, a)
        if found != AREA:
            return found
        a, b = (a[1], a[2], a[0]), (b[1], b[2], b[0])
    return AREA
