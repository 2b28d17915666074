"""Views of a page: camera positions, ground and axes, and pictures."""

import io
from collections.abc import Collection
from typing import Any

import numpy as np

from bvh.apps.viewer.drawing import Floats, PageFrame
from bvh.apps.viewer.ground_shadow import ground_shadow
from bvh.camera.camera import Camera
from bvh.camera.placement import oblique
from bvh.scene.scene import Scene

# Fields of view in degrees: perspective, and one small enough to look orthographic.
WIDE, NARROW = 35.0, 1.0
# Share of the view that a model fills.
FILL = 0.9
NAMES = ("Fit", "Front", "Top", "Iso")
SHADOW = "/shadow"


class Views:
    """Controls of the camera, shadow and grid on a page."""

    def __init__(self, session: Any, up: Floats) -> None:
        """Add the controls to the panel of a `Session`; `up` is a unit vector."""
        self._session, self._up = session, up
        gui = session.client.gui
        buttons = gui.add_button_group("View", NAMES)
        self._parallel = gui.add_checkbox("Orthographic", False)
        hint = "A shadow below the scene, cast by rays once, when this is ticked."
        self._shadow = gui.add_checkbox("Shadow", False, hint=hint)
        self._ground = gui.add_checkbox("Grid and axes", False)
        self._without: Collection[int] = ()
        buttons.on_click(lambda _: self.look(buttons.value))
        self._parallel.on_update(lambda _: self._change_opening())
        self._ground.on_update(lambda _: self.draw_ground())
        self._shadow.on_update(lambda _: self.draw_shadow())
        gui.add_button("Save picture").on_click(lambda _: self._save())

    def look(self, name: str, bounds: Floats | None = None) -> None:
        """Turn the camera to a view in NAMES, and fit `bounds` (2, 3), by default of the scene.

        "Fit" and names that are not in NAMES keep the direction.
        """
        session = self._session
        with session.updated_scene():
            box = session.scene.bounds if bounds is None else bounds
            if not np.isfinite(box).all():
                return
            # `ahead` is horizontal: at a right angle to the up direction.
            side = np.cross(self._up, np.eye(3)[np.abs(self._up).argmin()])
            ahead = np.cross(self._up, side / np.linalg.norm(side))
            now = session.camera()
            # From the top a little tilted, as a view must not be along the up direction.
            along = {
                "Front": ahead, "Top": -self._up + 1e-3 * ahead, "Iso": oblique(self._up),
            }.get(name, now.forward)  # fmt: skip
            shown = session.frame.to_page(box)
            # A little larger, so that a single point has a size.
            shown += 1e-6 * np.array([[-1.0] * 3, [1.0] * 3])
            opening = NARROW if self._parallel.value else WIDE
            size = max(now.width, 1), max(now.height, 1)
            framed = Camera.framing(shown, along, self._up, opening, *size, fill=FILL)
            self._set_camera(framed.eye, shown.mean(axis=0), opening)

    def _set_camera(self, eye: Floats, target: Floats, opening: float) -> None:
        """Set the page's camera, in page coordinates; `opening` is the field of view in degrees."""
        camera = self._session.client.camera
        with self._session.client.atomic():
            camera.fov = float(np.radians(opening))
            # The camera of a narrow view is far away: a farther near plane keeps depths precise.
            camera.near = 1.0 if opening < 2.0 * NARROW else 0.002
            camera.up_direction = self._up
            camera.position, camera.look_at = eye, target

    def _change_opening(self) -> None:
        """Apply the choice of an orthographic view; the eye moves, so that sizes stay the same."""
        camera = self._session.client.camera
        opening = NARROW if self._parallel.value else WIDE
        target = np.asarray(camera.look_at)
        scale = np.tan(0.5 * camera.fov) / np.tan(0.5 * np.radians(opening))
        self._set_camera(target + scale * (np.asarray(camera.position) - target), target, opening)

    def tick_shadow(self, without: Collection[int] = ()) -> None:
        """Show the shadow of the scene but for the instances with ids `without`, which may move."""
        self._without = without
        self._shadow.value = True

    def draw_shadow(self) -> None:
        """Draw the shadow below the scene, if it is chosen, in place of the one before."""
        session, scene = self._session, self._session.client.scene
        _remove(scene, SHADOW)
        if self._shadow.value:
            with session.updated_scene():
                found = ground_shadow(session.scene, self._up, self._without)
                if found is not None:
                    found.show(scene, session.frame, SHADOW)
                    self.show_shadow()

    def show_shadow(self) -> None:
        """Show the shadow below whole meshes; hide it for cut ones, and for ray-cast pictures."""
        handle = self._session.client.scene.get_handle_by_name(SHADOW)
        if handle is not None:
            handle.visible = self._session.is_whole

    def draw_ground(self) -> None:
        """Draw a grid below the scene, and the axes in its lowest corner."""
        session, scene = self._session, self._session.client.scene
        _remove(scene, "/ground", "/axes")
        bounds = session.frame.to_page(session.scene.bounds)
        if not self._ground.value or not np.isfinite(bounds).all():
            return
        axis = int(np.abs(self._up).argmax())
        place = bounds.mean(axis=0)
        place[axis] = bounds[0 if self._up[axis] > 0.0 else 1, axis]
        scene.add_grid(
            "/ground", width=8.0, height=8.0, plane=("yz", "xz", "xy")[axis], position=place,
            cell_size=0.25, cell_color=(150, 150, 150), section_color=(110, 110, 110),
            shadow_opacity=0.25,
        )  # fmt: skip
        scene.add_frame("/axes", axes_length=0.4, axes_radius=0.008, position=bounds[0])

    def _save(self) -> None:
        from PIL import Image

        camera, client = self._session.client.camera, self._session.client
        pixels = client.get_render(camera.image_height, camera.image_width, transport_format="png")
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        client.send_file_download("view.png", file.getvalue(), save_immediately=True)


def _remove(scene: Any, *names: str) -> None:
    """Remove nodes of viser's scene; names without a node are ignored."""
    for name in names:
        if scene.get_handle_by_name(name):
            scene.remove_by_name(name)


def first_view(scene: Scene, frame: PageFrame, up: Floats) -> Camera:
    """Return a camera in page coordinates that sees all of a scene; it looks at the origin."""
    empty = not np.isfinite(scene.bounds).all()
    box = np.array([[-1.0] * 3, [1.0] * 3]) if empty else frame.to_page(scene.bounds)
    return Camera.framing(box, up=up, fov_y=WIDE, fill=FILL)
