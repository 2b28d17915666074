"""Viewer of a scene in the browser, and `view`, which serves it."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bvh.apps.page_server import HOST, Page
from bvh.apps.viewer.drawing import MAX_FACES
from bvh.apps.viewer.following import FOV, Follower
from bvh.apps.viewer.session import Session
from bvh.camera.camera import Camera
from bvh.camera.placement import upward
from bvh.picking.results import Pick, Selection
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import Axis, label, thread_count, whole_number
from bvh.scene.scene import Scene

if TYPE_CHECKING:
    from viser import ClientHandle

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

    Examples
    --------
    >>> import bvh
    >>> viewer = bvh.view(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))  # doctest: +SKIP
    >>> viewer.port  # doctest: +SKIP
    """

    def __init__(
        self, follower: Follower, host: str, port: int, origins: Sequence[str] | None = None,
        url: str | None = None,
    ) -> None:  # fmt: skip
        self.scene, self._follower, up = follower.copy.source, follower, follower.up
        self._last: Session | None = None
        super().__init__(host, port, "bvh", origins, url)
        self._dress(up, 1.2, control_width="medium", brand_color=(30, 110, 255))
        self._server.gui.main_panel.dock_right()
        start = self._server.initial_camera
        start.fov, start.near, start.far = float(np.radians(FOV)), 0.002, 500.0
        start.position, start.look_at, start.up = self._follower.first_view().eye, np.zeros(3), up

        @self._server.on_client_connect
        def _(client: ClientHandle) -> None:
            self._last = self._follower.add(client)
            # Disconnected before this: the event for it has passed.
            if client.client_id not in self._server.get_clients():
                self._follower.remove(client)

        self._server.on_client_disconnect(self._follower.remove)
        self._follower.start()

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
        self._follower.stop()

    def __repr__(self) -> str:
        return f"Viewer({'closed' if self.closed else self.url!r}, {self.scene!r})"


def view(
    source: Any, *, title: str | None = None, up: Axis | ArrayLike | None = None, host: str = HOST,
    port: int = PORT, open_browser: bool = False, max_faces: int = MAX_FACES,
    threads: int | None = None, origins: Sequence[str] | None = None, url: str | None = None,
) -> Viewer:  # fmt: skip
    """Show a mesh, a tree or a scene in the browser.

    Drag to orbit, click to pick the nearest face, drag with the shift key held to select faces in a
    rectangle. All answers come from the tree, not from what the browser has drawn. Each page that
    is opened has its own camera and pick. It fetches nothing from elsewhere. Over ssh, forward the
    port: ``ssh -L 8080:localhost:8080 machine``.

    Parameters
    ----------
    source : BVH, Scene, trimesh.Scene or mesh
        A mesh is what `BVH.from_mesh` takes. The page follows changes of the scene and its trees:
        instances that move, come, go, or get another child, are shown or hidden; `BVH.refit`.
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
        Threads for pictures and selections; one for each CPU by default, -1 for all.
    origins : sequence of str, optional
        Origins of pages that may connect beside those of this machine, such as
        ``["https://hub.example.org"]``, and those in the variable ``BVH_ORIGINS``. Behind a proxy
        the page has the proxy's.
    url : str, optional
        Where browsers find the page: an address, whose origin may then connect, or a path on the
        server that the notebook comes from, such as ``"/proxy/{port}/"``. By default the variable
        ``BVH_URL``, on JupyterHub the path of jupyter-server-proxy, else `host` and `port`.

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
    limit, title = whole_number("max_faces", max_faces), label("title", title)
    thread_count(threads)
    scene, name = _scene_of(source, title)
    if direction is None:
        direction = upward(scene.up)
    # All that may fail comes before the server starts.
    follower = Follower(scene, name, direction, limit, threads)
    viewer = Viewer(follower, host, port, origins, url)
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
