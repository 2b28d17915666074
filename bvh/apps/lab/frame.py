"""Drawn coordinates of the ray lab: the visible part of space, and the effect of dragging."""

import math
from dataclasses import dataclass, replace

import numpy as np

from bvh.apps.lab.state import Array, LabBox, LabState, Vector, at, crossings, rotation, turn_of
from bvh.apps.viewer.drawing import corners_of

# In drawn coordinates: the radius of the ball that boxes fit into, and how far from its centre the
# ray is drawn.
FIT, REACH = 2.0, 6.0
# Distances in radii of the boxes within which the ray's ends and its crossings are in view.
WITHIN, CROSSING_WITHIN = 5.0, 2.0
# Dragged coordinates are rounded to this share of the boxes' size, as a power of ten.
STEP = 1e-2
# Decimals of degrees after a drag, and the smallest drawn half extent.
DECIMALS, MIN_HALF = 1, 0.02
# The largest radius whose reciprocal is an ordinary double.
LARGEST = 1e307


@dataclass(frozen=True)
class Frame:
    """Map from points p to drawn coordinates, (p - centre) * scale."""

    centre: Vector
    scale: float

    def drawn(self, point: Array | Vector) -> Array:
        """Return where a point is drawn, 0 along axes on which it is not finite."""
        with np.errstate(all="ignore"):
            found: Array = (np.asarray(point, np.float64) - np.array(self.centre)) * self.scale
        return np.where(np.isfinite(found), found, 0.0)

    def point(self, drawn: Array | Vector, near: Vector) -> Vector:
        """Return the point drawn here, in round numbers; coordinates of `near` if drawn alike."""
        point = np.asarray(drawn, np.float64)
        moved = point / self.scale + np.array(self.centre)
        kept = np.abs(point - self.drawn(near)) < 1e-4
        rows = zip(near, moved.tolist(), kept, strict=True)
        return tuple(old if keep else self.tidy(new) for old, new, keep in rows)

    def tidy(self, x: float) -> float:
        """Round x to a step that is small compared with the drawing."""
        decimals = -round(math.log10(STEP / self.scale))
        # Adding 0 turns -0.0 into 0.
        return round(x, decimals) + 0.0 if math.isfinite(x) else x


def corners(box: LabBox) -> Array:
    """Return the corners of a box, shape (8, 3); bit k of the row is the side along axis k."""
    found: Array = corners_of(np.array([[box.lower, box.upper]]))[0]
    if box.turned:
        found = (found - box.centre) @ rotation(box.turn).T + box.centre
    return found


@np.errstate(all="ignore")
def fitted(state: LabState) -> Frame:
    """Return the frame around all boxes, and the ray's ends and crossings that are not far away."""
    points = np.concatenate([corners(box) for box in state.drawn_boxes])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.array([[-1.0] * 3, [1.0] * 3])
    middle, radius = _ball(points)
    near = [(np.array(end), WITHIN) for end in (state.seen.origin, state.seen.tip)]
    near += [(at(state, crossing.t), CROSSING_WITHIN) for crossing in crossings(state)]
    for point, within in near:
        if np.isfinite(point).all() and np.linalg.norm(point - middle) <= within * radius:
            points = np.vstack([points, point])
    middle, radius = _ball(points)
    return Frame(tuple(middle.tolist()), FIT / radius)


def _ball(points: Array) -> tuple[Array, float]:
    """Return the centre and half the diagonal of the box around points, never 0."""
    # Halves first, because sums and differences may overflow.
    low, high = points.min(axis=0) / 2, points.max(axis=0) / 2
    return low + high, min(math.hypot(*(high - low)), LARGEST) or 1.0


@dataclass(frozen=True)
class DrawnRay:
    """The ray in drawn coordinates: its origin, its unit direction, |d|, and the frame's scale.

    A length along it is s = t * |d| * scale.
    """

    start: Array
    unit: Array
    length: float
    scale: float

    def point(self, t: float) -> Array:
        """Return where the point at t is drawn, clamped far outside the view."""
        return self.start + min(max(self.along(t), -1e9), 1e9) * self.unit

    def along(self, t: float) -> float:
        """Return the drawn length from the origin to a t."""
        # In this order, a huge t is multiplied by a subnormal length before the scale.
        return t * self.length * self.scale if t else 0.0

    def visible(self) -> tuple[float, float] | None:
        """Return the drawn lengths between which the line is within REACH, or None."""
        middle = -float(self.start @ self.unit)
        aside = self.start + middle * self.unit
        rest = REACH**2 - float(aside @ aside)
        return None if rest <= 0.0 else (middle - math.sqrt(rest), middle + math.sqrt(rest))

    def part(self, t0: float, t1: float) -> Array | None:
        """Return the drawn ends of the visible part from t0 to t1, shape (2, 3), or None."""
        seen = self.visible()
        if seen is None:
            return None
        s0, s1 = max(self.along(t0), seen[0]), min(self.along(t1), seen[1])
        if not s0 <= s1:
            return None
        return np.array([self.start + s0 * self.unit, self.start + s1 * self.unit])


def drawn_ray(state: LabState, frame: Frame) -> DrawnRay | None:
    """Return the ray to draw, or None for an invalid one."""
    if not state.is_ray:
        return None
    d = np.array(state.seen.direction)
    # Scaled by a power of two, so that the norm neither underflows nor overflows.
    largest = float(np.abs(d).max())
    unit = np.ldexp(d, -math.frexp(largest)[1])
    norm = float(np.linalg.norm(unit))
    length = float(np.ldexp(norm, math.frexp(largest)[1]))
    return DrawnRay(frame.drawn(state.seen.origin), unit / norm, length, frame.scale)


@dataclass(frozen=True)
class Pose:
    """Position and rotation of a handle in drawn coordinates, shapes (3,) and (3, 3)."""

    position: Array
    turn: Array


def pose(state: LabState, frame: Frame, name: str, index: int) -> Pose:
    """Return the pose of a handle: "origin" or "tip" of the ray, "middle" or "size" of a box."""
    if name in ("origin", "tip"):
        return Pose(frame.drawn(getattr(state.seen, name)), np.eye(3))
    # A flat box is unbounded along z and drawn at z = 0.
    box = state.seen.boxes[index]
    turn = rotation(box.turn)
    half = np.where(np.isfinite(box.half), box.half, 0.0) if name == "size" else np.zeros(3)
    return Pose(frame.drawn(box.centre) + turn @ (half * frame.scale), turn)


def moved(state: LabState, frame: Frame, name: str, index: int, to: Pose) -> LabState:
    """Return the state after a handle was dragged; coordinates that did not move stay exact."""
    if name in ("origin", "tip"):
        return _move_end(state, frame, name, to)
    change = _move_box if name == "middle" else _scale_box
    boxes = list(state.boxes)
    boxes[index] = change(state, frame, boxes[index], pose(state, frame, name, index), to)
    return replace(state, boxes=tuple(boxes))


def _move_end(state: LabState, frame: Frame, name: str, to: Pose) -> LabState:
    """Move the origin or the tip; the other one stays where it is, up to rounding."""
    old = {"origin": state.origin, "tip": state.tip}
    new = old | {name: _point(state, frame, to, old[name])}
    direction = tuple(
        d if new[name][k] == old[name][k] else frame.tidy(new["tip"][k] - new["origin"][k])
        for k, d in enumerate(state.direction)
    )
    return replace(state, origin=new["origin"], direction=direction)


def _move_box(state: LabState, frame: Frame, box: LabBox, was: Pose, to: Pose) -> LabBox:
    """Move a box, or turn it about its centre, if the pose of its middle has changed."""
    old: Vector = tuple(box.centre.tolist())
    shift = np.subtract(_point(state, frame, to, old), old).tolist()
    lower, upper = (
        tuple(frame.tidy(x + s) if s else x for x, s in zip(corner, shift, strict=True))
        for corner in (box.lower, box.upper)
    )
    turn = box.turn
    if not np.allclose(was.turn, to.turn, rtol=0.0, atol=1e-6):
        x, y, z = (round(degrees, DECIMALS) + 0.0 for degrees in turn_of(to.turn))
        # From above a box can only be turned about z.
        turn = (turn[0], turn[1], z) if state.flat else (x, y, z)
    return LabBox(lower, upper, turn)


def _scale_box(state: LabState, frame: Frame, box: LabBox, was: Pose, to: Pose) -> LabBox:
    """Scale a box about its centre, by a drag of its upper corner."""
    lower, upper = list(box.lower), list(box.upper)
    drag = was.turn.T @ (to.position - was.position) / frame.scale
    for k in range(state.dimensions):
        if abs(drag[k]) * frame.scale > 1e-4:
            half = max(box.half[k] + float(drag[k]), MIN_HALF / frame.scale)
            centre = float(box.centre[k])
            lower[k], upper[k] = frame.tidy(centre - half), frame.tidy(centre + half)
    return LabBox(tuple(lower), tuple(upper), box.turn)


def _point(state: LabState, frame: Frame, to: Pose, old: Vector) -> Vector:
    """Return where a point was dragged to; if flat, z is unchanged."""
    return (*frame.point(to.position, old)[: state.dimensions], *old[state.dimensions :])
