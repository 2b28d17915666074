"""Handles of the ray lab: their poses, what dragging them changes, and the gizmos on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bvh.apps.lab.frame import Frame
from bvh.apps.lab.state import Array, LabBox, LabState, Vector, in_plane, rotation, turn_of

SIZES = {"origin": 0.55, "tip": 0.55, "middle": 1.0, "size": 0.55}
# Decimals of degrees after a drag, and the smallest drawn half extent.
DECIMALS, MIN_HALF = 1, 0.02


@dataclass(frozen=True)
class Pose:
    """Position and rotation of a handle in drawn coordinates, shapes (3,) and (3, 3)."""

    position: Array
    turn: Array


def pose(state: LabState, frame: Frame, name: str, index: int) -> Pose:
    """Return the pose of a handle: "origin" or "tip" of the ray, "middle" or "size" of a box."""
    seen = in_plane(state)
    if name in ("origin", "tip"):
        return Pose(frame.drawn(getattr(seen, name)), np.eye(3))
    # A flat box is unbounded along z and drawn at z = 0.
    box = seen.boxes[index]
    turn = rotation(box.turn)
    half = np.where(np.isfinite(box.half), box.half, 0.0) if name == "size" else np.zeros(3)
    return Pose(frame.drawn(box.centre) + turn @ (half * frame.scale), turn)


def moved(state: LabState, frame: Frame, name: str, index: int, to: Pose) -> LabState:
    """Return the state after a handle was dragged; unmoved coordinates keep their bits."""
    if name in ("origin", "tip"):
        return _move_end(state, frame, name, to)
    change = _move_box if name == "middle" else _scale_box
    boxes = list(state.boxes)
    boxes[index] = change(state, frame, boxes[index], pose(state, frame, name, index), to)
    return replace(state, boxes=tuple(boxes))


def _move_end(state: LabState, frame: Frame, name: str, to: Pose) -> LabState:
    """Move the origin or the tip; the other one stays."""
    ends = {"origin": state.origin, "tip": state.tip}
    old, new = ends[name], _point(state, frame, to, ends[name])
    ends[name] = new
    direction = tuple(
        d if new[k] == old[k] else frame.tidy(ends["tip"][k] - ends["origin"][k])
        for k, d in enumerate(state.direction)
    )
    return replace(state, origin=ends["origin"], direction=direction)


def _move_box(state: LabState, frame: Frame, box: LabBox, was: Pose, to: Pose) -> LabBox:
    """Move a box, or turn it about its centre."""
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
    """Scale a box about its centre."""
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


class Handles:
    """Gizmos of viser, one for each handle; those of what is chosen are visible.

    `moved` is called with a handle's name and its new pose.
    """

    def __init__(self, server: Any, moved: Callable[[str, Pose], None]) -> None:
        self._dragged_name: str | None = None
        self._moved = moved
        self._gizmos = {name: self._make(server, name) for name in SIZES}

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

    def _make(self, server: Any, name: str) -> Any:
        from viser.transforms import SO3

        gizmo = server.scene.add_transform_controls(
            f"/handles/{name}", SIZES[name], disable_rotations=name != "middle",
            disable_sliders=True, depth_test=False, visible=False,
        )  # fmt: skip

        # A coroutine, because a pool of threads would not keep the order of the messages.
        @gizmo.on_update
        async def _(event: Any) -> None:
            self._dragged_name = None if event.phase == "end" else name
            turn = np.asarray(SO3(gizmo.wxyz).as_matrix(), float)
            self._moved(name, Pose(gizmo.position.copy(), turn))

        return gizmo
