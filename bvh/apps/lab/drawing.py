"""Scene of the ray lab in the browser: boxes, planes, the ray, its crossings; points to drag."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from bvh.apps.lab.state import AXES, INF, Array, LabState, Vector, at, crossings, interval, nearest
from bvh.apps.viewer.drawing import PageFrame, corners_of, edges_of
from bvh.apps.viewer.tools.marks import Marks
from bvh.geometry.boxes import ray_box
from bvh.picking.projected import BOX_FACES

# On light and on dark pages.
INK, FAINT, GOLD, PALE = (110, 116, 130), (170, 176, 186), (232, 163, 23), (172, 178, 187)
AXIS_COLOURS = ((214, 69, 69), (47, 158, 88), (59, 111, 212))
PLANE_COLOURS = ((236, 160, 160), (150, 208, 170), (160, 182, 236))
BOX_COLOURS = ((96, 140, 190), (150, 110, 180))
# Corners of labels that are at their points: each label extends in a direction of its own.
ANCHORS = {
    "entry": "bottom-right", "exit": "bottom-left", "origin": "top-right", "tip": "top-left"
}  # fmt: skip

# Coordinates of the page within which everything is drawn, and the height of the floor.
REACH, FLOOR_Z = 6.0, -2.2
# Distances in sizes of the boxes within which the ray's ends and its crossings are in view.
ENDS_WITHIN, CROSSINGS_WITHIN = 5.0, 2.0
# Dragged coordinates are rounded to this share of the page's unit, as a power of ten.
STEP = 1e-2
# The smallest distance on the page by which a coordinate counts as dragged.
DRAGGED = 1e-4


@np.errstate(all="ignore")
def framed(state: LabState) -> PageFrame:
    """Return a page frame around all boxes, and the ray's ends and crossings that are near them."""
    points = np.concatenate(state.boxes)
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.array([[-1.0] * 3, [1.0] * 3])
    middle = points.min(axis=0) / 2 + points.max(axis=0) / 2  # The sum might overflow.
    size = np.abs(points - middle).max() or 1.0
    others = [(np.array(end), ENDS_WITHIN) for end in (state.origin, state.tip)]
    others += [(at(state, t), CROSSINGS_WITHIN) for t, _, _ in crossings(state)]
    near = [point for point, within in others if np.abs(point - middle).max() <= within * size]
    points = np.concatenate([points, np.reshape(near, (-1, 3))])
    return PageFrame.around(np.array([points.min(axis=0), points.max(axis=0)]))


@np.errstate(all="ignore")
def drawn(frame: PageFrame, points: Any) -> Array:
    """Return page coordinates of world points, clamped to -REACH and REACH; NaN becomes 0."""
    return np.clip(np.nan_to_num(frame.to_page(points)), -REACH, REACH)


def dragged(state: LabState, frame: PageFrame, name: str, place: Array) -> LabState:
    """Return the state after a point was dragged to `place` (3,), in page coordinates.

    `name` is "origin", "tip", or the field of a corner, such as "lower". Coordinates that did not
    move stay exact, the others become round numbers. The other end of the ray stays.
    """
    old: Vector = getattr(state, name)
    still = np.abs(place - drawn(frame, old)) < DRAGGED
    moved = frame.to_world(place).tolist()
    new = tuple(
        x if same else _tidy(y, frame) for x, y, same in zip(old, moved, still, strict=True)
    )
    if name not in ("origin", "tip"):
        return replace(state, **{name: new})  # type: ignore[arg-type]
    start, end = (new, state.tip) if name == "origin" else (state.origin, new)
    direction = tuple(
        d if same else _tidy(b - a, frame)
        for d, a, b, same in zip(state.direction, start, end, still, strict=True)
    )
    return replace(state, origin=start, direction=direction)


def _tidy(x: float, frame: PageFrame) -> float:
    """Return x rounded to a multiple of a power of ten, about STEP on the page; inf, NaN stay."""
    digits = -round(math.log10(STEP / frame.scale))
    # Adding 0 turns -0.0 into 0.
    return round(x, digits) + 0.0 if math.isfinite(x) else x


class LabDrawing:
    """Drawing of the ray and the boxes in viser's `scene` of a page."""

    def __init__(self, scene: Any) -> None:
        self._marks = Marks(scene)
        scene.add_grid(
            "/floor", width=14.0, height=14.0, cell_size=1.0, cell_color=PALE, section_color=PALE,
            shadow_opacity=0.0, position=(0.0, 0.0, FLOOR_Z),
        )  # fmt: skip

    def update(self, state: LabState, frame: PageFrame, planes: bool) -> None:
        """Draw a state; `planes` adds the planes of the box that is hit, or else of the first."""
        closest = nearest(state)
        with self._marks.redrawn(), np.errstate(all="ignore"):
            for index, box in enumerate(state.boxes):
                points, colour = corners_of(drawn(frame, [box])), BOX_COLOURS[index]
                opacity = 0.32 if index == closest else 0.18
                faces = points[:, BOX_FACES].reshape(-1, 3, 3)
                # Without an eye, marks are where they are, not lifted towards it.
                self._marks.surface(f"box {index + 1}", faces, None, colour, opacity)
                self._marks.lines(f"edges {index + 1}", edges_of(points), colour, thickness=2.0)
                if state.second:
                    self._label(f"box {index + 1}", points.mean(axis=(0, 1)), "center-center")
            if state.is_ray:
                self._draw_ray(state, frame, closest)
            self._draw_crossings(state, frame, closest or 0, planes)

    def _draw_ray(self, state: LabState, frame: PageFrame, closest: int | None) -> None:
        """Draw the ray's line, its origin and tip, and where it enters and leaves a box.

        `closest` is the number of the box that is hit, None for a miss. The part in it is gold.
        """
        t_min, t_max = state.t_range
        # For a miss all of the ray is "ahead", and the later parts are empty.
        near = far = t_max
        if closest is not None:
            _, near, far = interval(state, closest)
        for name, t0, t1, colour, width in (
            ("behind", -INF, t_min, FAINT, 1.5), ("ahead", t_min, near, INK, 3.0),
            ("inside", near, far, GOLD, 7.0), ("beyond", far, t_max, INK, 3.0),
        ):  # fmt: skip
            part = _part(state, frame, t0, t1)
            if part is not None and (closest is not None or t0 < t1):
                self._marks.lines(name, part[None], colour, width)
        ahead = _part(state, frame, t_min, t_max)
        if ahead is not None:
            head = 0.25 * (ahead[1] - ahead[0]) / np.linalg.norm(ahead[1] - ahead[0])
            self._marks.arrow("head", ahead[1] - head, head, INK, size=1.0)
        # Points to mark: (t, text) by name.
        texts = {"origin": (0.0, "origin"), "tip": (1.0, "tip")}
        if closest is not None:
            what = "touch" if near == far else "entry"
            texts |= {"exit": (far, f"exit, t = {far:.9g}")} if near < far else {}
            texts |= {"entry": (near, f"{what}, t = {near:.9g}")}
        for name, (t, text) in texts.items():
            point = _in_view(state, frame, t)
            if point is None:
                continue
            if name == "origin":
                self._marks.ball(name, point, INK, radius=0.07)
            elif name != "tip":  # The tip has the arrow's head.
                # Translucent, around the balls of crossings.
                self._marks.ball(name, point, GOLD, radius=0.15, opacity=0.5)
            self._label(text, point, ANCHORS[name])

    def _draw_crossings(self, state: LabState, frame: PageFrame, index: int, planes: bool) -> None:
        """Mark where the ray crosses the planes of the sides of box `index`.

        With `planes`, draw these as rectangles that contain the sides and the crossings.
        """
        box = drawn(frame, state.boxes[index])
        # For each axis, the points that its rectangles contain.
        reached: list[list[Array]] = [[*box], [*box], [*box]]
        for t, leaving, axis in crossings(state, index):
            point = _in_view(state, frame, t)
            if point is None:
                continue
            reached[axis].append(point)
            # Entries are solid, exits wireframes.
            looks: dict[str, Any] = {"subdivisions": 1, "wireframe": True} if leaving else {}
            name, radius = f"{AXES[axis]} {leaving}", 0.09 if leaving else 0.075
            self._marks.ball(name, point, AXIS_COLOURS[axis], radius, **looks)
        for axis, points in enumerate(reached if planes else ()):
            low, high = np.min(points, axis=0) - 0.15, np.max(points, axis=0) + 0.15
            # The planes at the lower and the upper side, as two boxes without thickness.
            pair = np.array([[low, high], [low, high]])
            pair[:, :, axis] = box[:, axis, None]
            name = f"plane {AXES[axis]}"
            self._marks.lines(name, edges_of(corners_of(pair)), PLANE_COLOURS[axis], 1.0)

    def _label(self, text: str, point: Array, anchor: str) -> None:
        """Write a text whose corner `anchor`, such as "top-left", is at a point of the page."""
        # The start of the text makes the name unique, and does not change with numbers.
        self._marks.label(f"label {anchor} {text[:5]}", text, point, anchor)


def _part(state: LabState, frame: PageFrame, t0: float, t1: float) -> Array | None:
    """Return the ends (2, 3), on the page, of the visible part of a ray from t0 to t1, or None."""
    lower, upper = frame.to_world([[-REACH] * 3, [REACH] * 3])
    hit, *ends = ray_box(state.origin, state.direction, lower, upper, t0, t1)
    if not hit:
        return None
    # With a subnormal direction, an end may be beyond the largest double.
    return np.stack([drawn(frame, at(state, t)) for t in np.clip(ends, -1.7e308, 1.7e308).tolist()])


def _in_view(state: LabState, frame: PageFrame, t: float) -> Array | None:
    """Return where the ray's point at t is drawn, or None if it is out of view."""
    point = frame.to_page(at(state, t))
    return point if np.abs(point).max() <= REACH else None
