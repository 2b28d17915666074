"""The handles of the ray lab's scene: arrows to drag and rings to turn by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bvh.lab.frame import Frame
from bvh.lab.moves import Pose, pose
from bvh.lab.state import LabState

SCALES = {"origin": 0.55, "tip": 0.55, "middle": 1.0, "size": 0.55}

# Called with the handle's name and where it is.
Moved = Callable[[str, Pose], None]


class Handles:
    """One handle for each thing to drag; those of what is chosen are shown."""

    def __init__(self, server: Any, moved: Moved) -> None:
        self._held: str | None = None
        self._moved = moved
        self._gizmos = {name: self._make(server, name) for name in SCALES}

    def update(self, state: LabState, frame: Frame, names: tuple[str, ...], index: int) -> None:
        """Bring all handles to where they belong, but not the one in the user's hand."""
        from viser.transforms import SO3

        axes = (True, True, not state.flat)
        for name, gizmo in self._gizmos.items():
            gizmo.visible = name in names
            if gizmo.active_axes != axes:
                gizmo.active_axes = axes
            if name in names and name != self._held:
                place = pose(state, frame, name, index)
                gizmo.position = place.position
                gizmo.wxyz = SO3.from_matrix(place.turn).wxyz

    def _make(self, server: Any, name: str) -> Any:
        from viser.transforms import SO3

        gizmo = server.scene.add_transform_controls(
            f"/handles/{name}",
            SCALES[name],
            disable_rotations=name != "middle",
            disable_sliders=True,
            depth_test=False,
            visible=False,
        )

        # Coroutines run in the order of the messages, which a pool of threads would not keep.
        @gizmo.on_update
        async def _(event: Any) -> None:
            self._held = None if event.phase == "end" else name
            place = Pose(gizmo.position.copy(), np.asarray(SO3(gizmo.wxyz).as_matrix(), float))
            self._moved(name, place)

        return gizmo
