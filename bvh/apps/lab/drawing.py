"""Scene of the ray lab in the browser: boxes, planes, the ray, and their intersections."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bvh.apps.lab.frame import DrawnRay, Frame, corners, drawn_boxes, drawn_ray
from bvh.apps.lab.state import AXES, Array, LabState, crossings, interval, nearest, rotation
from bvh.apps.viewer.box_overlay import edges_of
from bvh.picking.projected import BOX_FACES

INK, FAINT, GOLD = (40, 44, 52), (170, 176, 186), (232, 163, 23)
AXIS_COLOURS = ((214, 69, 69), (47, 158, 88), (59, 111, 212))
PLANE_COLOURS = ((236, 160, 160), (150, 208, 170), (160, 182, 236))
BOX_COLOURS = ((96, 140, 190), (150, 110, 180))

NOWHERE = np.zeros((1, 2, 3))
MAX_BOXES = 2
# Half width and height of the floor.
FLOOR, FLOOR_Z = 7, -2.2
# From a point to the label below it.
BELOW, BELOW_FLAT = np.array([0.0, 0.0, 0.12]), np.array([0.0, 0.16, 0.0])


class Drawing:
    """The nodes of the scene; `update` changes their positions, shapes and visibility."""

    def __init__(self, server: Any) -> None:
        scene = server.scene
        self._grid = _line(scene, "/grid", (226, 229, 234), 1.0)
        _set_lines(self._grid, _grid())
        self._boxes = [
            (
                scene.add_mesh_simple(
                    f"/box{k}/faces", np.zeros((8, 3)), BOX_FACES, color=BOX_COLOURS[k],
                    opacity=0.22, side="double", flat_shading=True, cast_shadow=False,
                    receive_shadow=False,
                ),
                _line(scene, f"/box{k}/edges", BOX_COLOURS[k], 2.0),
                scene.add_label(f"/box{k}/name", f"box {k + 1}", anchor="bottom-center"),
            )
            for k in range(MAX_BOXES)
        ]  # fmt: skip
        self._behind = _line(scene, "/ray/behind", FAINT, 1.5)
        self._ray = _line(scene, "/ray/ahead", INK, 3.0)
        self._beyond = _line(scene, "/ray/beyond", INK, 3.0)
        self._inside = _line(scene, "/ray/inside", GOLD, 7.0)
        self._head = scene.add_arrows(
            "/ray/head", NOWHERE, INK, shaft_radius=0.02, head_radius=0.07, head_length=0.2
        )
        self._origin = _ball(scene, "/ray/origin", INK, 0.07)
        self._names = {
            name: scene.add_label(f"/names/{name}", name, anchor=anchor)
            for name, anchor in (
                ("origin", "top-center"),
                ("tip", "top-center"),
                ("entry", "bottom-right"),
                ("exit", "bottom-left"),
            )
        }
        # Translucent balls around the entry and the exit.
        self._ends = [_ball(scene, f"/meet/{name}", GOLD, 0.15, 0.5) for name in ("entry", "exit")]
        self._crossings = [
            [_point(scene, axis, entering) for entering in (True, False)] for axis in range(3)
        ]
        self._planes = [_line(scene, f"/planes/{AXES[k]}", PLANE_COLOURS[k], 1.0) for k in range(3)]
        boxes = [(node, -0.3) for parts in self._boxes for node in parts[:2]]
        lines = (self._behind, self._ray, self._beyond, self._inside)
        self._stack = [
            *boxes, *((node, -0.25) for node in self._planes), *((node, -0.2) for node in lines)
        ]  # fmt: skip

    @np.errstate(all="ignore")
    def update(self, state: LabState, frame: Frame, planes: bool) -> None:
        """Draw a state."""
        self._grid.position = (0.0, 0.0, -0.4 if state.flat else FLOOR_Z)
        # Seen from above, lines and boxes lie below the balls.
        for node, depth in self._stack:
            node.position = (0.0, 0.0, depth if state.flat else 0.0)
        closest = nearest(state)
        ray = drawn_ray(state, frame)
        self._draw_boxes(state, frame, closest)
        self._draw_ray(state, ray, closest)
        self._draw_ends(state, ray, closest)
        self._draw_crossings(state, frame, ray, closest or 0, planes)

    def _draw_boxes(self, state: LabState, frame: Frame, closest: int | None) -> None:
        boxes = drawn_boxes(state)
        for index, (faces, edges, name) in enumerate(self._boxes):
            there = index < len(boxes)
            faces.visible = edges.visible = there
            name.visible = there and len(boxes) > 1
            if there:
                points = np.array([frame.drawn(corner) for corner in corners(boxes[index])])
                faces.vertices = points.astype(np.float32)
                edges.points = edges_of(points[None]).astype(np.float32)
                faces.opacity = 0.32 if index == closest else 0.18
                name.position = points[6] / 2 + points[7] / 2

    def _draw_ray(self, state: LabState, ray: DrawnRay | None, closest: int | None) -> None:
        _set_line(self._behind, ray.part(-math.inf, state.t_min) if ray else None)
        # The part in the box is drawn in gold.
        ahead = ray.part(state.t_min, state.t_max) if ray else None
        span = interval(state, closest) if closest is not None else None
        near, far = (span.near, span.far) if span else (state.t_max, state.t_max)
        _set_line(self._ray, ray.part(state.t_min, near) if ray else None)
        _set_line(self._beyond, ray.part(far, state.t_max) if ray and span else None)
        self._head.visible = ahead is not None
        if ahead is not None and ray is not None:
            self._head.points = np.array([[ahead[1] - 0.25 * ray.unit, ahead[1]]], np.float32)
        below = BELOW_FLAT if state.flat else BELOW
        origin, tip = _seen(ray, 0.0), _seen(ray, 1.0)
        # A tip that is drawn at the origin needs no second label.
        if ray is not None and ray.along(1.0) <= 0.1:
            tip = None
        _set_point(self._origin, origin)
        _set_point(self._names["origin"], None if origin is None else origin - below)
        _set_point(self._names["tip"], None if tip is None else tip - below)

    def _draw_ends(self, state: LabState, ray: DrawnRay | None, closest: int | None) -> None:
        """Mark the entry and the exit of the closest box."""
        span = interval(state, closest) if closest is not None else None
        _set_line(self._inside, ray.part(span.near, span.far) if ray and span else None)
        touch = span is not None and span.near == span.far
        near = None if span is None else span.near
        far = None if span is None or touch else span.far
        for node, name, t in zip(self._ends, ("entry", "exit"), (near, far), strict=True):
            point = None if t is None else _seen(ray, t)
            _set_point(node, point)
            _set_point(self._names[name], point)
            if t is not None:
                self._names[name].text = f"{'touch' if touch else name}, t = {t:.9g}"

    def _draw_crossings(
        self, state: LabState, frame: Frame, ray: DrawnRay | None, index: int, planes: bool
    ) -> None:
        """Mark the crossings with a box's planes, and draw the planes as wide as these."""
        found = crossings(state, index) if ray else []
        points: dict[tuple[int, bool], Array] = {}
        for crossing in found:
            point = _seen(ray, crossing.t)
            if point is not None:
                points[crossing.axis, crossing.entering] = point
        for axis in range(3):
            for node, entering in zip(self._crossings[axis], (True, False), strict=True):
                _set_point(node, points.get((axis, entering)))
            hit = [points[key] for key in points if key[0] == axis]
            _set_lines(self._planes[axis], _outlines(state, frame, index, axis, hit, planes))


def _outlines(
    state: LabState, frame: Frame, index: int, axis: int, hit: list[Array], planes: bool
) -> Array | None:
    """Return the outlines of both planes of an axis, around the box and the crossings."""
    if not planes or axis >= state.dimensions:
        return None
    box = drawn_boxes(state)[index]
    turn = rotation(box.turn)
    middle = frame.drawn(box.centre)
    with np.errstate(invalid="ignore"):
        half = np.nan_to_num(np.abs(box.half), posinf=0.0) * frame.scale
    local = [turn.T @ (point - middle) for point in hit]
    low = np.minimum.reduce([-half, *local]) - 0.15
    high = np.maximum.reduce([half, *local]) + 0.15
    j, k = (axis + 1) % 3, (axis + 2) % 3
    if state.flat:
        low[2] = high[2] = 0.0
    rows = []
    for side in (-half[axis], half[axis]):
        ring = np.zeros((4, 3))
        ring[:, axis] = side
        ring[:, j] = low[j], high[j], high[j], low[j]
        ring[:, k] = low[k], low[k], high[k], high[k]
        ring = ring @ turn.T + middle
        rows += [[ring[n], ring[(n + 1) % 4]] for n in range(4)]
    return np.array(rows)


def _seen(ray: DrawnRay | None, t: float) -> Array | None:
    """Return where a t is drawn, or None if that is out of view."""
    span = ray.visible() if ray else None
    if ray is None or span is None or not span[0] <= ray.along(t) <= span[1]:
        return None
    return ray.point(t)


def _line(scene: Any, name: str, colour: tuple[int, int, int], width: float) -> Any:
    return scene.add_line_segments(
        name, NOWHERE, colour, thickness=width, thickness_units="screen", visible=False
    )


def _set_point(node: Any, point: Array | None) -> None:
    node.visible = point is not None
    if point is not None:
        node.position = point


def _set_line(node: Any, part: Array | None) -> None:
    _set_lines(node, None if part is None else part[None])


def _set_lines(node: Any, parts: Array | None) -> None:
    node.visible = parts is not None
    if parts is not None:
        node.points = parts.astype(np.float32)


def _grid() -> Array:
    """Return the lines of the floor, shape (n, 2, 3)."""
    rows = []
    for k in range(-FLOOR, FLOOR + 1):
        rows.append([[k, -FLOOR, 0.0], [k, FLOOR, 0.0]])
        rows.append([[-FLOOR, k, 0.0], [FLOOR, k, 0.0]])
    return np.array(rows, np.float64)


def _ball(
    scene: Any, name: str, colour: tuple[int, int, int], radius: float, opacity: float | None = None
) -> Any:
    return scene.add_icosphere(
        name, radius, colour, subdivisions=3, opacity=opacity, visible=False, cast_shadow=False,
        receive_shadow=False,
    )  # fmt: skip


def _point(scene: Any, axis: int, entering: bool) -> Any:
    """Add the mark of a crossing: solid for an entry, wireframe for an exit."""
    name = f"/crossings/{AXES[axis]}{'near' if entering else 'far'}"
    return scene.add_icosphere(
        name, 0.075 if entering else 0.09, AXIS_COLOURS[axis], subdivisions=3 if entering else 1,
        wireframe=not entering, visible=False, cast_shadow=False, receive_shadow=False,
    )  # fmt: skip
