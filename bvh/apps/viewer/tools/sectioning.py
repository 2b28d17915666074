"""Sectioning: a plane, one side of which the page draws, with caps on what is cut."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bvh.apps.viewer.drawing import DrawnMesh, Floats, PageFrame, corners_of, unplaced
from bvh.apps.viewer.tools.marks import Marks
from bvh.camera.camera import Camera
from bvh.queries.answers.sections import Section, sections_by

OFF, PICKED = "off", "picked face"
AXES = {"x": 0, "y": 1, "z": 2}
# Largest number of copies of meshes that are cut; others that cross the plane are drawn uncut.
MAX_CUT = 500
# Colours of cut solids, and of the curves around them.
CAP, CURVE = (238, 150, 118), (45, 38, 34)
# Steps across a section to which ends of its segments are rounded where it is filled.
STEPS = 4096


class CutDrawing(NamedTuple):
    """What a plane leaves: the parts, the triangles (n, 3, 3) of caps, and curves (m, 2, 3)."""

    parts: list[DrawnMesh]
    caps: Floats
    curves: Floats

    def mark(self, marks: Marks, eye: Floats) -> None:
        """Draw the caps, and the curves a little nearer to the eye, which is in the world."""
        marks.surface("caps", self.caps, None, CAP)
        marks.lines("curves", self.curves, CURVE, 2.0, eye)


class Sectioning:
    """Controls of the section plane on the page of a `Session`, and the plane.

    `plane` is None, or (normal, offset) in the world, with a unit normal n: geometry with
    n.p > offset is neither drawn nor picked.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self.plane: tuple[Floats, float] | None = None
        gui = session.client.gui
        hint = "The axis that it is across, or the plane of the face that was picked last."
        self._across = gui.add_dropdown("Across", (OFF, *AXES, PICKED), hint=hint)
        self._share = gui.add_slider(
            "Position", 0.0, 100.0, step=0.5, initial_value=50.0, visible=False
        )
        self._flip = gui.add_checkbox("Other side", False, visible=False)
        # 1 to remove what is above the plane along its axis, -1 to remove what is below.
        self._side = 1.0
        self._across.on_update(lambda _: self._face_eye())
        self._share.on_update(lambda _: self._update())
        self._flip.on_update(lambda _: self._update())

    def cut(self, across: str, share: float) -> None:
        """Set the controls: `across` an axis or OFF, at `share` percent of the scene's extent."""
        self._share.value, self._across.value = share, across

    def _face_eye(self) -> None:
        """Remove the side of the plane that is towards the eye, which then sees the cut."""
        axis = AXES.get(self._across.value)
        with self._session.lock:
            away = self._session.camera().eye - self._session.scene.bounds.mean(axis=0)
        self._side = -1.0 if axis is not None and away[axis] < 0.0 else 1.0
        self._update()

    def _update(self) -> None:
        session, chosen = self._session, self._across.value
        self._share.visible = self._flip.visible = chosen != OFF
        with session.updated_scene():
            self.plane = None
            normal = np.zeros(3)
            if chosen in AXES:
                normal[AXES[chosen]] = 1.0
            elif chosen == PICKED and session.pick is not None:
                normal = session.pick.normal
            # Picked points and segments have a normal of NaN.
            if normal.any() and np.isfinite(normal).all():
                bounds = session.scene.bounds
                # How far the corners of the scene's bounds are along the normal.
                heights = np.array(np.meshgrid(*bounds.T)).reshape(3, -1).T @ normal
                low, high = heights.min(), heights.max()
                offset = low + 0.01 * self._share.value * (high - low)
                sign = -self._side if self._flip.value else self._side
                self.plane = sign * normal, sign * float(offset)
            session.redraw()

    def limited(self, camera: Camera) -> Camera | None:
        """Return a one-ray camera limited to the side that is drawn; None if no part is there."""
        if self.plane is None:
            return camera
        normal, offset = self.plane
        # How far the eye is beyond the plane, and by how much that grows along the ray.
        away, rate = float(normal @ camera.eye) - offset, float(normal @ camera.forward)
        if away > 0.0:
            return replace(camera, near=-away / rate) if rate < 0.0 else None
        if rate <= 0.0:
            return camera
        # An eye in the plane sees nothing on the way out of it.
        far = -away / rate
        return replace(camera, far=far) if far > camera.near else None


def cut_by(
    plane: tuple[Floats, float] | None, parts: list[DrawnMesh], frame: PageFrame
) -> CutDrawing:
    """Return what a plane leaves of `parts`: the points with normal . p <= offset, and caps.

    `plane` is (unit normal, offset) in the world, None for no plane; `frame` is that of the page on
    which `parts` are drawn.
    """
    caps, curves = [np.empty((0, 3, 3))], [np.empty((0, 2, 3))]
    if plane is None:
        return CutDrawing(parts, caps[0], curves[0])
    normal, offset = plane
    # The plane's offset in page coordinates.
    level = (offset - float(normal @ frame.centre)) * frame.scale
    below: list[DrawnMesh] = []
    cut = 0
    for part in parts:
        if len(part.faces) == 0:
            continue
        # The heights of box corners decide: a copy is cut even if only its box is crossed.
        used = part.vertices[part.faces].reshape(-1, 3)
        box = part._replace(vertices=corners_of(np.stack([used.min(0), used.max(0)])[None])[0])
        heights = np.array([placed(box, k) for k in range(len(part.copies.places))])
        heights = heights @ normal - level
        inside = heights.max(axis=1) <= 0.0
        crossed = ~inside & (heights.min(axis=1) < 0.0)
        # Parts with a material, or too many copies, are drawn without being cut.
        if part.glb is not None or cut + crossed.sum() > MAX_CUT:
            inside, crossed = inside | crossed, np.zeros_like(crossed)
        if inside.any():
            whole = part if inside.all() else part._replace(copies=part.copies.take(inside))
            below.append(whole)
        for k in np.flatnonzero(crossed).tolist():
            cut += 1
            uncut = placed(part, k)
            # None: the faces belong to one mesh, not to instances of a scene.
            section: Any = sections_by(uncut, part.faces.astype(np.int32), [*normal, -level], None)
            caps.append(filled(section))
            curves.append(section.segments)
            points, faces = clipped(uncut, part.faces, normal, level)
            # A copy that is cut becomes a mesh of its own, in page coordinates. Uncut meshes have
            # numbers from -1 up in their keys; below, copies have even, sheared meshes odd ones.
            number = -2 - 2 * k if part.key[1] < 0 else -3 - 2 * part.key[1]
            below.append(part._replace(
                key=(part.key[0], number), vertices=points, faces=faces,
                copies=unplaced(part.copies.take([k])),
            ))  # fmt: skip
    return CutDrawing(below, np.concatenate(caps), np.concatenate(curves))


def filled(section: Section) -> Floats:
    """Return triangles (n, 3, 3) that fill the loops of a section, but for holes.

    The section is cut into trapezoids at the heights, in the plane, at which segments end, and a
    trapezoid into two triangles. Along a level line, every other stretch between segments is inside
    the section. Heights are rounded to STEPS steps, so that equal ones are recognised.
    """
    if not section.loops:
        return np.empty((0, 3, 3))
    lines = [line @ section.axes.T for line in section.loops]
    # Segments (n, 2, 2) in the plane, each upward.
    ends = np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in lines])
    low, size = ends[..., 1].min(), np.ptp(ends[..., 1])
    steps = np.rint((ends[..., 1] - low) * (STEPS / (size or 1.0))).astype(np.int64)
    upward = (np.arange(len(ends))[:, None], np.argsort(steps, axis=1))
    ends, steps = ends[upward], steps[upward]
    levels, rows = np.unique(steps, return_inverse=True)
    first, last = rows.reshape(-1, 2).T
    # The sides of trapezoids: the part of a segment from each level, `row`, to the next one.
    segment = np.repeat(np.arange(len(ends)), last - first)
    row = np.arange(len(segment)) - np.repeat(np.cumsum(last - first) - last, last - first)
    start, end = steps[segment].T
    share = (levels[[row, row + 1]] - start) / (end - start)
    x = ends[segment, 0, 0] + share * (ends[segment, 1, 0] - ends[segment, 0, 0])
    # The sides between the same two levels from left to right: each two bound a trapezoid.
    order = np.lexsort([x.sum(axis=0), row])
    x, y = x[:, order], low + levels[[row[order], row[order] + 1]] * (size / STEPS)
    lower, upper = np.stack([x, y], axis=2)
    a, b, c, d = lower[::2], lower[1::2], upper[1::2], upper[::2]
    in_plane = np.stack([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)], axis=1)
    # The origin of coordinates in the plane is its point nearest to the origin of space.
    n, offset = section.plane[:3], section.plane[3]
    return np.asarray(in_plane.reshape(-1, 3, 2) @ section.axes - offset / (n @ n) * n)


def placed(part: DrawnMesh, copy: int) -> Floats:
    """Return the vertices (n, 3), in page coordinates, of the copy of a mesh with an index."""
    from trimesh.transformations import quaternion_matrix

    turn = quaternion_matrix(part.copies.turns[copy])[:3, :3]  # type: ignore[no-untyped-call]
    return np.asarray(
        (part.vertices * part.copies.scales[copy]) @ turn.T + part.copies.places[copy]
    )


def clipped(points: Floats, faces: Any, normal: Floats, level: float) -> tuple[Any, Any]:
    """Return vertices and faces of triangles, cut to normal . p <= level for a unit `normal`."""
    from trimesh.intersections import slice_faces_plane

    cut: Any = slice_faces_plane  # The function has no types.
    # trimesh keeps the side to which the normal points; the plane is given by one of its points.
    vertices, triangles, _ = cut(points, faces.astype(np.int64), -normal, level * normal)
    return vertices.astype(np.float32), triangles.astype(np.uint32)
