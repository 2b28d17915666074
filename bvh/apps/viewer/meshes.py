"""Meshes on a page: the parts of a drawing; only changes since the last drawing are sent."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.drawing import DrawnMesh


class Meshes:
    """The meshes of one page, in viser's `scene`."""

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        # Parts on the page, and viser's handles of them, by the keys of parts.
        self._shown: dict[tuple[int, int], tuple[DrawnMesh, Any]] = {}
        self._numbers = itertools.count()
        self._visible = True

    def set_visible(self, visible: bool) -> None:
        """Show or hide all meshes, also those that are added later."""
        self._visible = visible
        for _, handle in self._shown.values():
            handle.visible = visible

    def show(self, parts: Sequence[DrawnMesh]) -> None:
        """Show the parts of a drawing instead of those shown before; send only what has changed."""
        for key in self._shown.keys() - {part.key for part in parts}:
            self._shown.pop(key)[1].remove()
        for part in parts:
            old, handle = self._shown.get(part.key, (None, None))
            if old is not None and _fits(old, part):
                _send_changes(handle, old, part)
            else:
                # This replaces the mesh of the same name on the page.
                name = f"/meshes/{next(self._numbers)}" if handle is None else handle.name
                handle = self._add(name, part)
            self._shown[part.key] = part, handle

    def _add(self, name: str, part: DrawnMesh) -> Any:
        """Send a part called `name`: a .glb file, copies, or one mesh; return viser's handle."""
        turns, places, scales, colours, _ = part.copies
        looks: dict[str, Any] = {
            "cast_shadow": False, "receive_shadow": False, "visible": self._visible
        }  # fmt: skip
        if part.glb is not None:
            return self._scene.add_batched_glb(
                name, part.glb, turns, places, batched_scales=scales, lod="off", **looks
            )
        looks |= {"flat_shading": not part.smooth, "side": "double"}
        if len(places) > 1:
            return self._scene.add_batched_meshes_simple(
                name, part.vertices, part.faces, turns, places, batched_scales=scales,
                batched_colors=linear(colours), lod="off", **looks,
            )  # fmt: skip
        return self._scene.add_mesh_simple(
            name, part.vertices, part.faces, color=tuple(colours[0].tolist()),
            scale=tuple(scales[0].tolist()), wxyz=turns[0], position=places[0], **looks,
        )  # fmt: skip


def linear(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return sRGB colours as linear ones, which viser expects for copies, not for single meshes."""
    return np.asarray((255.0 * (colours / 255.0) ** 2.2).round().astype(np.uint8))


def _fits(old: DrawnMesh, new: DrawnMesh) -> bool:
    """Return whether the mesh `old` on the page can be changed to `new`, without a new mesh."""
    # Files and faces cannot be changed, nor can copies become a single mesh, or the reverse.
    if old.glb != new.glb or (len(old.copies.places) > 1) != (len(new.copies.places) > 1):
        return False
    return old.faces is new.faces or np.array_equal(old.faces, new.faces)


def _send_changes(handle: Any, old: DrawnMesh, new: DrawnMesh) -> None:
    """Assign to the handle of `old` what differs in `new`; viser sends only changed arrays."""
    before, now = old.copies, new.copies
    if new.glb is None and new.vertices is not old.vertices:
        handle.vertices = new.vertices
    if new.glb is not None or len(now.places) > 1:
        # The page takes the number of copies from their positions, which come last.
        if new.glb is None:
            handle.batched_colors = linear(now.colours)
        if now.maps is not before.maps:
            handle.batched_scales, handle.batched_wxyzs = now.scales, now.turns
            handle.batched_positions = now.places
        return
    for name, old_value, value in (
        ("color", before.colours, now.colours), ("scale", before.scales, now.scales),
        ("wxyz", before.turns, now.turns), ("position", before.places, now.places),
    ):  # fmt: skip
        if not np.array_equal(old_value, value):
            setattr(handle, name, tuple(value[0].tolist()))
