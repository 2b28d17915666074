"""Scene of the ray lab in the browser: boxes, planes, the ray, its crossings, labels, handles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from bvh.apps.lab.frame import DrawnRay, Frame, Pose, corners, drawn_ray, pose
from bvh.apps.lab.state import AXES, Array, LabState, crossings, interval, nearest, rotation
from bvh.apps.viewer.drawing import corners_of, edges_of
from bvh.camera.camera import Camera
from bvh.picking.projected import BOX_FACES

if TYPE_CHECKING:
    import viser

Colour = tuple[int, int, int]
Ends = dict[str, tuple[Array, str]]

INK, FAINT, GOLD = (40, 44, 52), (170, 176, 186), (232, 163, 23)
AXIS_COLOURS = ((214, 69, 69), (47, 158, 88), (59, 111, 212))
PLANE_COLOURS = ((236, 160, 160), (150, 208, 170), (160, 182, 236))
BOX_COLOURS = ((96, 140, 190), (150, 110, 180))

NOWHERE = np.zeros((1, 2, 3))
MAX_BOXES = 2
# Half width and height of the floor, and sizes of the handles.
FLOOR, FLOOR_Z = 7, -2.2
HANDLES = {"origin": 0.55, "tip": 0.55, "middle": 1.0, "size": 0.55}
# Where the arrows of the ray's ends are, as seen from these.
ARROW = 0.4
# Those that come first have the first choice of a place.
NAMES = ("entry", "exit", "origin", "tip")


# Cameras: position, up, field of view in degrees. They look at the origin.
FROM_AN_ANGLE = ((3.6, -8.2, 4.2), (0.0, 0.0, 1.0), 38.0)
FROM_ABOVE = ((0.0, 0.0, 40.0), (0.0, 1.0, 0.0), 9.0)

# Pixels of the smallest picture for which labels are placed; in larger ones they only move apart.
WIDTH, HEIGHT = 390, 500
# Pixels of a letter, a line and the border of a label, and from a point to its label.
LETTER, LINE, BORDER, GAP = 6.8, 20.0, 12.0, 14.0
# Costs of a covered point, and of a pixel that is covered twice, or out of the picture.
POINT, TWICE, OUTSIDE = 150.0, 20.0, 0.2
Anchor = Literal[
    "top-left", "top-center", "top-right", "center-left", "center-right", "bottom-left",
    "bottom-center", "bottom-right",
]  # fmt: skip
# Where the corner of a label that the anchor names is, in drawn coordinates.
Spot = tuple[Array, Anchor]

# Directions from a point to its label, with y up, and the corner of the label that is there.
SIDES: dict[tuple[int, int], Anchor] = {
    (0, -1): "top-center", (0, 1): "bottom-center", (1, 0): "center-left", (-1, 0): "center-right",
    (1, -1): "top-left", (-1, -1): "top-right", (1, 1): "bottom-left", (-1, 1): "bottom-right",
}  # fmt: skip


class Label(NamedTuple):
    """A text at a point in drawn coordinates."""

    name: str
    text: str
    point: Array


class LabNodes:
    """The nodes of the scene; `update` changes their positions, shapes and visibility."""

    def __init__(self, server: viser.ViserServer) -> None:
        scene = server.scene
        self._grid = _line(scene, "/grid", (226, 229, 234), 1.0)
        _draw_lines(self._grid, _grid())
        self._boxes = [
            (
                scene.add_mesh_simple(
                    f"/box{k}/faces", np.zeros((8, 3)), BOX_FACES, color=BOX_COLOURS[k],
                    opacity=0.22, side="double", flat_shading=True, cast_shadow=False,
                    receive_shadow=False,
                ),
                _line(scene, f"/box{k}/edges", BOX_COLOURS[k], 2.0),
                scene.add_label(f"/box{k}/name", f"box {k + 1}"),
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
        self._names = {name: scene.add_label(f"/names/{name}", name) for name in NAMES}
        # Translucent balls around the entry and the exit.
        self._ends = {k: _ball(scene, f"/meet/{k}", GOLD, 0.15, opacity=0.5) for k in NAMES[:2]}
        # Crossings are solid for an entry, wireframes for an exit.
        self._crossings = [
            (
                _ball(scene, f"/crossings/{name}near", colour, 0.075),
                _ball(scene, f"/crossings/{name}far", colour, 0.09, subdivisions=1, wireframe=True),
            )
            for name, colour in zip(AXES, AXIS_COLOURS, strict=True)
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
        ends = _ends(state, ray, closest)
        self._draw_ray(state, ray, closest, ends)
        marks = self._draw_crossings(state, frame, ray, closest or 0, planes)
        self._draw_labels(state, frame, ray, ends, marks)

    def _draw_boxes(self, state: LabState, frame: Frame, closest: int | None) -> None:
        boxes = state.drawn_boxes
        for index, (faces, edges, _) in enumerate(self._boxes):
            faces.visible = edges.visible = index < len(boxes)
            if index < len(boxes):
                points = frame.drawn(corners(boxes[index]))
                faces.vertices = points.astype(np.float32)
                edges.points = edges_of(points[None]).astype(np.float32)
                faces.opacity = 0.32 if index == closest else 0.18

    def _draw_ray(self, state: LabState, ray: DrawnRay | None, box: int | None, ends: Ends) -> None:
        """Draw the parts of the ray, that in the closest box in gold, and mark its ends there."""

        def part(t0: float, t1: float) -> Array | None:
            return ray.part(t0, t1) if ray else None

        span = None if box is None else interval(state, box)
        near, far = (span.near, span.far) if span else (state.t_max, state.t_max)
        _draw_lines(self._behind, part(-math.inf, state.t_min))
        _draw_lines(self._ray, part(state.t_min, near))
        _draw_lines(self._inside, part(near, far) if span else None)
        _draw_lines(self._beyond, part(far, state.t_max) if span else None)
        ahead = part(state.t_min, state.t_max)
        if ray is not None and ahead is not None:
            ahead = ahead[1] - [[0.25], [0.0]] * ray.unit
        _draw_lines(self._head, ahead)
        _place(self._origin, _seen(ray, 0.0))
        for name, node in self._ends.items():
            _place(node, ends.get(name, (None, ""))[0])

    def _draw_labels(
        self, state: LabState, frame: Frame, ray: DrawnRay | None, ends: Ends, marks: list[Array]
    ) -> None:
        """Place the labels of points and boxes, clear of each other and of what is marked."""
        labels = [Label(name, text, point) for name, (point, text) in ends.items()]
        origin, tip = _seen(ray, 0.0), _seen(ray, 1.0)
        # A tip that is drawn at the origin needs no second label.
        if ray is not None and ray.along(1.0) <= 0.1:
            tip = None
        marks = [*marks, *(label.point for label in labels)]
        for name, point in (("origin", origin), ("tip", tip)):
            if point is not None:
                labels.append(Label(name, name, point))
                # Its arrows are to be seen, too.
                marks += [point, *(point + ARROW * np.eye(3))]
        for k, box in enumerate(state.drawn_boxes if len(state.boxes) > 1 else ()):
            *_, a, b = frame.drawn(corners(box))
            labels.append(Label(f"box {k + 1}", f"box {k + 1}", a / 2 + b / 2))
        spots = placed(labels, marks, state.flat)
        texts = {label.name: label.text for label in labels}
        nodes = self._names | {f"box {k + 1}": parts[2] for k, parts in enumerate(self._boxes)}
        for name, node in nodes.items():
            node.visible = name in spots
            if name in spots:
                node.position, node.anchor = spots[name]
                if name in self._names:
                    node.text = texts[name]

    def _draw_crossings(
        self, state: LabState, frame: Frame, ray: DrawnRay | None, index: int, planes: bool
    ) -> list[Array]:
        """Mark and return the crossings with a box's planes; draw the planes as wide as these."""
        found = crossings(state, index) if ray else []
        points = {(crossing.axis, crossing.entering): _seen(ray, crossing.t) for crossing in found}
        for axis, nodes in enumerate(self._crossings):
            marks = [points.get((axis, entering)) for entering in (True, False)]
            for node, point in zip(nodes, marks, strict=True):
                _place(node, point)
            hit, lines = [point for point in marks if point is not None], None
            if planes and axis < state.dimensions:
                lines = _outlines(state, frame, index, axis, hit)
            _draw_lines(self._planes[axis], lines)
        return [point for point in points.values() if point is not None]


class Handles:
    """Gizmos of viser; `moved` is called with the name of the dragged one, and its new pose."""

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


def _ends(state: LabState, ray: DrawnRay | None, closest: int | None) -> Ends:
    """Return where the ray enters and leaves the closest box, as far as in view, and labels."""
    ends: Ends = {}
    if closest is None:
        return ends
    span = interval(state, closest)
    touch = span.near == span.far
    for name, t in (("entry", span.near), ("exit", span.far)):
        point = _seen(ray, t)
        if point is not None and not (touch and name == "exit"):
            ends[name] = point, f"{'touch' if touch else name}, t = {t:.9g}"
    return ends


def _seen(ray: DrawnRay | None, t: float) -> Array | None:
    """Return where a t is drawn, or None if that is out of view."""
    span = ray.visible() if ray else None
    if ray is None or span is None or not span[0] <= ray.along(t) <= span[1]:
        return None
    return ray.point(t)


def _place(node: viser.SceneNodeHandle, point: Array | None) -> None:
    node.visible = point is not None
    if point is not None:
        node.position = point


def _draw_lines(node: viser.LineSegmentsHandle | viser.ArrowsHandle, lines: Array | None) -> None:
    """Draw lines (n, 2, 3), a single one (2, 3), or none."""
    node.visible = lines is not None
    if lines is not None:
        node.points = lines.reshape(-1, 2, 3).astype(np.float32)


def _line(
    scene: viser.SceneApi, name: str, colour: Colour, width: float
) -> viser.LineSegmentsHandle:
    return scene.add_line_segments(
        name, NOWHERE, colour, thickness=width, thickness_units="screen", visible=False
    )


def _ball(
    scene: viser.SceneApi, name: str, colour: Colour, radius: float, *, subdivisions: int = 3,
    wireframe: bool = False, opacity: float | None = None,
) -> viser.IcosphereHandle:  # fmt: skip
    return scene.add_icosphere(
        name, radius, colour, subdivisions=subdivisions, wireframe=wireframe, opacity=opacity,
        cast_shadow=False, receive_shadow=False, visible=False,
    )  # fmt: skip


def _grid() -> Array:
    """Return the lines of the floor, shape (n, 2, 3)."""
    k = np.arange(-FLOOR, FLOOR + 1.0)
    along = np.stack(np.broadcast_arrays(k[:, None], [-FLOOR, FLOOR], 0.0), axis=-1)
    return np.concatenate([along, along[:, :, [1, 0, 2]]])


def first_camera(flat: bool) -> Camera:
    """Return the first camera of the page over the smallest picture, with y up."""
    position, up, degrees = FROM_ABOVE if flat else FROM_AN_ANGLE
    return Camera.look_at(position, (0.0, 0.0, 0.0), up, degrees, WIDTH, HEIGHT, y="up")


def placed(labels: Sequence[Label], points: Sequence[Array], flat: bool) -> dict[str, Spot]:
    """Return a spot for each label, the first ones choosing first, that leaves points visible."""
    camera, sides = first_camera(flat), np.array(list(SIDES))
    marks = np.stack(camera.project(np.reshape(points, (-1, 3)))[:2], axis=1)
    taken: list[Array] = []
    found = {}
    for label in labels:
        x, y, depth = camera.project(label.point)
        half = np.array([LETTER * len(label.text) + BORDER, LINE]) / 2
        middles = np.array([x, y]) + sides * (GAP + half)
        choices = np.stack([middles - half, middles + half], axis=1)
        # The first of equal ones.
        best = int(np.argmin([_cost(frame, taken, marks) for frame in choices]))
        taken.append(choices[best])
        right, up = GAP * depth * sides[best]
        position = label.point + right * camera.step_x + up * camera.step_y
        found[label.name] = position, list(SIDES.values())[best]
    return found


def _cost(frame: Array, taken: Sequence[Array], marks: Array) -> float:
    """Return how bad a place is."""
    covered = int(((marks >= frame[0]) & (marks <= frame[1])).all(axis=1).sum())
    size = float(np.prod(frame[1] - frame[0]))
    inside = _common(frame, np.array([[0, 0], [WIDTH, HEIGHT]]))
    twice = sum(_common(frame, other) for other in taken)
    return POINT * covered + TWICE * twice + OUTSIDE * (size - inside)


def _common(a: Array, b: Array) -> float:
    """Return the area that two rectangles share."""
    return float(np.prod(np.maximum(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]), 0.0)))
