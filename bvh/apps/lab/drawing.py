"""Scene of the ray lab in the browser: boxes, planes, the ray, its crossings, labels, handles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bvh.apps.lab.frame import DrawnRay, Frame, Pose, corners, drawn_ray, pose
from bvh.apps.lab.state import AXES, Array, LabState, crossings, interval, nearest, rotation
from bvh.apps.viewer.drawing import corners_of, edges_of
from bvh.apps.viewer.tools.marks import Marks
from bvh.camera.camera import Camera
from bvh.picking.projected import BOX_FACES

if TYPE_CHECKING:
    import viser

INK, FAINT, GOLD = (40, 44, 52), (170, 176, 186), (232, 163, 23)
AXIS_COLOURS = ((214, 69, 69), (47, 158, 88), (59, 111, 212))
PLANE_COLOURS = ((236, 160, 160), (150, 208, 170), (160, 182, 236))
BOX_COLOURS = ((96, 140, 190), (150, 110, 180))

# Height of the floor, and sizes of the handles.
FLOOR_Z = -2.2
HANDLES = {"origin": 0.55, "tip": 0.55, "middle": 1.0, "size": 0.55}
# Where the arrows of the ray's ends are, relative to these.
ARROW = 0.4

# Cameras: position, up, field of view in degrees. They look at the origin.
FROM_AN_ANGLE = ((3.6, -8.2, 4.2), (0.0, 0.0, 1.0), 38.0)
FROM_ABOVE = ((0.0, 0.0, 40.0), (0.0, 1.0, 0.0), 9.0)

# Pixels of the smallest picture for which labels are placed; in larger ones they only move apart.
WIDTH, HEIGHT = 390, 500
# Pixels of a letter, a line and the border of a label, and from a point to its label.
LETTER, LINE, BORDER, GAP = 6.8, 20.0, 12.0, 14.0
# Costs of a covered point, and of a pixel that is covered twice, or out of the picture.
POINT, TWICE, OUTSIDE = 150.0, 20.0, 0.2
# Directions from a point to its label, with y up, and the corner of the label that is there.
SIDES = {
    (0, -1): "top-center", (0, 1): "bottom-center", (1, 0): "center-left", (-1, 0): "center-right",
    (1, -1): "top-left", (-1, -1): "top-right", (1, 1): "bottom-left", (-1, 1): "bottom-right",
}  # fmt: skip


class Label(NamedTuple):
    """A text at a point in drawn coordinates."""

    text: str
    point: Array


class LabDrawing:
    """Drawing of the ray and the boxes on the page."""

    def __init__(self, server: viser.ViserServer) -> None:
        self._marks, grey = Marks(server.scene), (226, 229, 234)
        self._floor = server.scene.add_grid(
            "/floor", 14.0, 14.0, cell_size=1.0, cell_color=grey, section_color=grey,
            shadow_opacity=0.0,
        )  # fmt: skip

    @np.errstate(all="ignore")
    def update(self, state: LabState, frame: Frame, planes: bool) -> None:
        """Draw a state."""
        closest, ray = nearest(state), drawn_ray(state, frame)
        self._floor.position = (0.0, 0.0, -0.4 if state.flat else FLOOR_Z)
        with self._marks.redrawn():
            self._draw_boxes(state, frame, closest)
            self._draw_ray(state, ray, closest)
            points = self._draw_crossings(state, frame, ray, closest or 0, planes)
            self._draw_labels(state, frame, ray, closest, points)

    def _lines(
        self, name: str, lines: Array | None, colour: tuple[int, int, int], width: float,
        depth: float,
    ) -> None:  # fmt: skip
        """Draw lines (n, 2, 3), a single one (2, 3), or none."""
        if lines is not None:
            # Lower by `depth`, so that balls cover the lines if seen from above.
            self._marks.lines(name, lines.reshape(-1, 2, 3) - [0.0, 0.0, depth], colour, width)

    def _draw_boxes(self, state: LabState, frame: Frame, closest: int | None) -> None:
        depth = 0.3 if state.flat else 0.0
        for index, box in enumerate(state.drawn_boxes):
            points, colour = frame.drawn(corners(box)), BOX_COLOURS[index]
            faces = points[BOX_FACES].reshape(-1, 3, 3) - [0.0, 0.0, depth]
            opacity = 0.32 if index == closest else 0.18
            self._marks.surface(f"box{index}", faces, None, colour, opacity)
            self._lines(f"box{index} edges", edges_of(points[None]), colour, 2.0, depth)

    def _draw_ray(self, state: LabState, ray: DrawnRay | None, box: int | None) -> None:
        """Draw the parts of the ray, that in the closest box in gold, and mark entry and exit."""
        if ray is None:
            return
        inside = None if box is None else interval(state, box)
        near, far = (inside.near, inside.far) if inside else (state.t_max, state.t_max)
        for name, t0, t1, colour, width in (
            ("behind", -math.inf, state.t_min, FAINT, 1.5), ("ahead", state.t_min, near, INK, 3.0),
            ("inside", near, far, GOLD, 7.0), ("beyond", far, state.t_max, INK, 3.0),
        ):  # fmt: skip
            if inside or name in ("behind", "ahead"):
                self._lines(name, ray.part(t0, t1), colour, width, 0.2 if state.flat else 0.0)
        ahead = ray.part(state.t_min, state.t_max)
        if ahead is not None:
            self._marks.arrow("head", ahead[1] - 0.25 * ray.unit, 0.25 * ray.unit, INK, 1.0)
        self._ball("origin", _seen(ray, 0.0), INK, 0.07)
        # Translucent balls around the entry and the exit.
        for name, label in _ends(state, ray, box).items():
            self._ball(name, label.point, GOLD, 0.15, opacity=0.5)

    def _ball(
        self, name: str, point: Array | None, colour: tuple[int, int, int], radius: float,
        **looks: object,
    ) -> None:  # fmt: skip
        if point is not None:
            self._marks.ball(name, point, colour, radius, **looks)

    def _draw_crossings(
        self, state: LabState, frame: Frame, ray: DrawnRay | None, index: int, planes: bool
    ) -> list[Array]:
        """Mark and return the crossings with a box's planes; draw planes that reach to them."""
        seen: dict[int, list[Array]] = {axis: [] for axis in range(3)}
        for crossing in crossings(state, index) if ray else ():
            point, axis = _seen(ray, crossing.t), crossing.axis
            if point is None:
                continue
            seen[axis].append(point)
            # Entries are solid, exits wireframes.
            if crossing.entering:
                self._ball(f"{AXES[axis]}near", point, AXIS_COLOURS[axis], 0.075)
            else:
                looks = {"subdivisions": 1, "wireframe": True}
                self._ball(f"{AXES[axis]}far", point, AXIS_COLOURS[axis], 0.09, **looks)
        for axis in range(state.dimensions if planes else 0):
            lines = _outlines(state, frame, index, axis, seen[axis])
            depth = 0.25 if state.flat else 0.0
            self._lines(f"plane {AXES[axis]}", lines, PLANE_COLOURS[axis], 1.0, depth)
        return [point for points in seen.values() for point in points]

    def _draw_labels(
        self, state: LabState, frame: Frame, ray: DrawnRay | None, closest: int | None,
        points: list[Array],
    ) -> None:  # fmt: skip
        """Place the labels of points and boxes, clear of each other and of what is marked."""
        # Labels are placed in this order, the first with the free choice.
        labels = _ends(state, ray, closest)
        marks = [*points, *(label.point for label in labels.values())]
        for name, t in (("origin", 0.0), ("tip", 1.0)):
            point = _seen(ray, t)
            # A tip that is drawn at the origin needs no second label.
            if ray is not None and point is not None and not (t and ray.along(t) <= 0.1):
                labels[name] = Label(name, point)
                # The ends of its arrows must remain visible, too.
                marks += [point, *(point + ARROW * np.eye(3))]
        for k, box in enumerate(state.drawn_boxes if len(state.boxes) > 1 else ()):
            *_, a, b = frame.drawn(corners(box))
            labels[f"box {k + 1}"] = Label(f"box {k + 1}", a / 2 + b / 2)
        spots = placed(list(labels.values()), marks, state.flat)
        for (name, label), (position, anchor) in zip(labels.items(), spots, strict=True):
            self._marks.label(f"{name} label", label.text, position, anchor)


class Handles:
    """Handles for dragging, gizmos of viser.

    `moved` is called with the name of the one that is dragged, and its new pose.
    """

    def __init__(self, server: viser.ViserServer, moved: Callable[[str, Pose], None]) -> None:
        self._dragged_name: str | None = None
        self._moved = moved
        self._gizmos = {name: self._make(server, name) for name in HANDLES}

    def update(self, state: LabState, frame: Frame, names: tuple[str, ...], index: int) -> None:
        """Move all handles to their poses, except the one that is being dragged."""
        from viser.transforms import SO3

        axes = (True, True, not state.flat)
        for name, gizmo in self._gizmos.items():
            gizmo.visible = name in names
            if gizmo.active_axes != axes:
                gizmo.active_axes = axes
            if name in names and name != self._dragged_name:
                target = pose(state, frame, name, index)
                gizmo.position = target.position
                gizmo.wxyz = SO3.from_matrix(target.turn).wxyz

    def _make(self, server: viser.ViserServer, name: str) -> viser.TransformControlsHandle:
        from viser.transforms import SO3

        gizmo = server.scene.add_transform_controls(
            f"/handles/{name}", HANDLES[name], disable_rotations=name != "middle",
            disable_sliders=True, depth_test=False, visible=False,
        )  # fmt: skip

        # A coroutine, because a pool of threads would not keep the order of the messages.
        @gizmo.on_update
        async def _(event: viser.TransformControlsEvent) -> None:
            self._dragged_name = None if event.phase == "end" else name
            turn = np.asarray(SO3(gizmo.wxyz).as_matrix(), float)
            self._moved(name, Pose(gizmo.position.copy(), turn))

        return gizmo


def _outlines(state: LabState, frame: Frame, index: int, axis: int, hit: list[Array]) -> Array:
    """Return the outlines of both planes of an axis, around the box and the crossings."""
    box = state.drawn_boxes[index]
    turn, middle = rotation(box.turn), frame.drawn(box.centre)
    half = np.nan_to_num(np.abs(box.half), posinf=0.0) * frame.scale
    local = [turn.T @ (point - middle) for point in hit]
    low = np.minimum.reduce([-half, *local]) - 0.15
    high = np.maximum.reduce([half, *local]) + 0.15
    if state.flat:
        low[2] = high[2] = 0.0
    planes = np.array([[low, high], [low, high]])
    planes[:, :, axis] = [[-half[axis]], [half[axis]]]
    return edges_of(corners_of(planes) @ turn.T + middle)


def _ends(state: LabState, ray: DrawnRay | None, closest: int | None) -> dict[str, Label]:
    """Return labels at the entry and the exit of the closest box, if these are in view."""
    ends: dict[str, Label] = {}
    if closest is not None:
        span = interval(state, closest)
        touch = span.near == span.far
        for name, t in (("entry", span.near), ("exit", span.far)):
            point = _seen(ray, t)
            if point is not None and not (touch and name == "exit"):
                ends[name] = Label(f"{'touch' if touch else name}, t = {t:.9g}", point)
    return ends


def _seen(ray: DrawnRay | None, t: float) -> Array | None:
    """Return where the ray's point at t is drawn, or None if it is out of view."""
    span = ray.visible() if ray else None
    if ray is None or span is None or not span[0] <= ray.along(t) <= span[1]:
        return None
    return ray.point(t)


def first_camera(flat: bool) -> Camera:
    """Return the first camera of the page over the smallest picture, with y up."""
    position, up, degrees = FROM_ABOVE if flat else FROM_AN_ANGLE
    return Camera.look_at(position, (0.0, 0.0, 0.0), up, degrees, WIDTH, HEIGHT, y="up")


def placed(labels: Sequence[Label], points: Sequence[Array], flat: bool) -> list[tuple[Array, str]]:
    """Return (position, anchor) of each label, placed in order; `points` should stay visible."""
    camera, sides = first_camera(flat), np.array(list(SIDES))
    marks = np.stack(camera.project(np.reshape(points, (-1, 3)))[:2], axis=1)
    taken: list[Array] = []
    found = []
    for label in labels:
        x, y, depth = camera.project(label.point)
        half = np.array([LETTER * len(label.text) + BORDER, LINE]) / 2
        middles = np.array([x, y]) + sides * (GAP + half)
        choices = np.stack([middles - half, middles + half], axis=1)
        # `argmin` returns the first of equal places.
        best = int(np.argmin([_cost(frame, taken, marks) for frame in choices]))
        taken.append(choices[best])
        right, up = GAP * depth * sides[best]
        position = label.point + right * camera.step_x + up * camera.step_y
        found.append((position, list(SIDES.values())[best]))
    return found


def _cost(frame: Array, taken: Sequence[Array], marks: Array) -> float:
    """Return the cost of placing a label in the rectangle `frame`: (2, 2), in pixels."""
    covered = int(((marks >= frame[0]) & (marks <= frame[1])).all(axis=1).sum())
    size = float(np.prod(frame[1] - frame[0]))
    inside = _common(frame, np.array([[0, 0], [WIDTH, HEIGHT]]))
    twice = sum(_common(frame, other) for other in taken)
    return POINT * covered + TWICE * twice + OUTSIDE * (size - inside)


def _common(a: Array, b: Array) -> float:
    """Return the area that two rectangles share."""
    return float(np.prod(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0.0)))
