"""Viewer of a scene in the browser, and `view`, which serves it."""

from __future__ import annotations

import webbrowser
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.apps.page_server import HOST, Page
from bvh.apps.viewer import readouts
from bvh.apps.viewer.drawing import MAX_FACES, PageFrame, drawing_of
from bvh.apps.viewer.session import Session
from bvh.camera.camera import Camera
from bvh.camera.placement import upward
from bvh.picking.results import Pick, Selection
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import thread_count, whole_number
from bvh.scene.scene import Scene

FOV = 35.0
PORT = 8080


class Viewer(Page):
    """A scene shown in the browser, as returned by `view`, until it is closed.

    Attributes
    ----------
    url : str
        Address of the page. In a notebook the viewer displays it in a frame.
    port : int
        The port in use.
    scene : Scene
        The scene that was given, or a new one of the tree or mesh that was given.
    """

    def __init__(
        self, scene: Scene, title: str, up: NDArray[np.float64], host: str, port: int,
        max_faces: int, threads: int | None,
    ) -> None:  # fmt: skip
        self.scene = scene
        self._sessions: dict[int, Session] = {}
        self._last: Session | None = None
        # All that may fail comes before the server starts.
        frame = PageFrame.around(scene.bounds)
        drawing = drawing_of(scene, frame, max_faces)
        notices = []
        if drawing.left_out:
            notices.append(
                f"{readouts.count(drawing.left_out)} faces are not drawn (limit "
                f"{readouts.count(max_faces)}): grey boxes stand for them. Ray-cast pictures show "
                "all of them, and picks and rectangles find them."
            )
        head = readouts.header(title, _content(scene), notices)
        # Load the kernels of picks before the first click.
        scene.pick(frame.ray_camera(np.zeros(3), np.ones(3)), 0.5, 0.5)
        first = _first_view(frame, scene.bounds, up)
        super().__init__(host, port, "bvh")
        self._dress(first, up)

        @self._server.on_client_connect
        def _(client: Any) -> None:
            session = Session(client, scene, frame, drawing, head, threads)
            self._sessions[client.client_id] = self._last = session
            # Disconnected before this: the event for it has passed.
            if client.client_id not in self._server.get_clients():
                self._forget(client)

        @self._server.on_client_disconnect
        def _(client: Any) -> None:
            self._forget(client)

    def _forget(self, client: Any) -> None:
        """Close the session of a page that was closed."""
        session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()

    def _dress(self, first: Camera, up: NDArray[np.float64]) -> None:
        """Set the page's lights, colours and initial camera."""
        server = self._server
        server.gui.configure_theme(
            show_logo=False, show_share_button=False, control_width="medium",
            brand_color=(30, 110, 255),
        )  # fmt: skip
        server.gui.main_panel.dock_right()
        server.scene.set_up_direction(up)
        server.scene.configure_default_lights(cast_shadow=False)
        start = server.initial_camera
        start.fov, start.near, start.far = float(np.radians(FOV)), 0.002, 500.0
        start.position, start.look_at, start.up = first.eye, np.zeros(3), up

    @property
    def pick(self) -> Pick | None:
        """The last pick on the page that was opened last, or None."""
        return None if self._last is None else self._last.pick

    @property
    def selection(self) -> Selection | None:
        """The last selection on the page that was opened last, or None."""
        return None if self._last is None else self._last.selection

    @property
    def camera(self) -> Camera | None:
        """The camera of the page that was opened last, in device pixels, or None."""
        return None if self._last is None else self._last.camera()

    def _leave(self) -> None:
        for session in list(self._sessions.values()):
            session.close()

    def __repr__(self) -> str:
        return f"Viewer({'closed' if self.closed else self.url!r}, {self.scene!r})"


def view(
    source: Any,
    *,
    title: str | None = None,
    up: str | ArrayLike | None = None,
    host: str = HOST,
    port: int = PORT,
    open_browser: bool = False,
    max_faces: int = MAX_FACES,
    threads: int | None = None,
) -> Viewer:
    """Show a mesh, a tree or a scene in the browser.

    Drag to orbit, click to pick the nearest face, drag with the shift key held to select faces in a
    rectangle. All answers come from the tree, not from what the browser has drawn. Each page that
    is opened has its own camera and pick. It fetches nothing from elsewhere. Over ssh, forward the
    port: ``ssh -L 8080:localhost:8080 machine``.

    Parameters
    ----------
    source : BVH, Scene, trimesh.Scene or mesh
        A mesh is what `BVH.from_mesh` takes. Drawn as it is now; queries follow later changes.
    title : str, optional
        Title in the panel.
    up : {"z", "x", "y", "-x", "-y", "-z"} or array_like, shape (3,), optional
        Up direction of the page; by default `Scene.up`, and z for a mesh.
    host : str
        The address to listen on; by default only this machine can reach it, and no page of another
        site. There is no password: whoever can reach another address sees the scene.
    port : int
        The port to listen on, or the next one that is free; 0 for any.
    open_browser : bool
        Open the page in the system's browser.
    max_faces : int
        Limit of faces sent to the page. Meshes beyond it are shown as boxes, as the panel says;
        ray-cast pictures show them, and picks find them.
    threads : int, optional
        Threads for pictures and selections; one for each CPU by default.

    Returns
    -------
    Viewer
        With the ``url``, ``pick`` and ``selection`` of the page, and ``close()``.

    Raises
    ------
    ImportError
        If viser is not installed: ``pip install "raybvh[view]"``.
    ValueError, TypeError
        If the source cannot be shown, such as a tree over custom primitives, or another argument
        is out of range.
    OSError
        If the host is not an address of this machine, or no port from `port` on is free.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> viewer = bvh.view(tree)  # doctest: +SKIP
    >>> viewer.url  # doctest: +SKIP
    'http://127.0.0.1:8080'
    >>> viewer.close()  # doctest: +SKIP
    """
    direction = None if up is None else upward(up)
    limit = whole_number("max_faces", max_faces)
    thread_count(threads)
    scene, name = _scene_of(source, title)
    if direction is None:
        direction = upward(scene.up)
    viewer = Viewer(scene, name, direction, host, port, limit, threads)
    if open_browser:
        webbrowser.open(viewer.url)
    return viewer


def _scene_of(source: Any, title: str | None) -> tuple[Scene, str]:
    """Return a scene of the source, and its title."""
    if isinstance(source, Scene):
        return source, title or "Scene"
    if hasattr(source, "graph") and hasattr(source, "geometry"):
        return Scene.from_trimesh(source), title or "Scene"
    scene = Scene()
    scene.add(source, name=title)
    return scene, title or ("Tree" if isinstance(source, BVH) else "Mesh")


def _first_view(frame: PageFrame, bounds: NDArray[np.float64], up: NDArray[np.float64]) -> Camera:
    """Return the initial camera, in page coordinates; it looks at the origin."""
    empty = not np.isfinite(bounds).all()
    box = np.array([[-1.0] * 3, [1.0] * 3]) if empty else frame.to_page(bounds)
    return Camera.framing(box, up=up, fov_y=FOV)


def _content(scene: Scene) -> str:
    """Return the numbers of primitives and instances of a scene as text."""
    leaves = scene.leaves
    sizes = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    total = readouts.count(int(sizes[leaves.tree_of].sum()))
    if len(leaves) < 2:
        return f"{total} {what}"
    return f"{total} {what} in {readouts.count(len(scene))} instances"
