"""Viewer of a scene in the browser, updated by a thread, and `view`, which serves it."""

import os
import threading
import time
import warnings
import webbrowser
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.apps.page_server import HOST, Page, set_up
from bvh.apps.viewer import readouts
from bvh.apps.viewer.drawing import MAX_FACES, PageDrawing, PageFrame, drawing_of
from bvh.apps.viewer.html_export import write_page
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.session import Session
from bvh.apps.viewer.tools.views import WIDE, first_view
from bvh.camera.camera import Camera
from bvh.camera.placement import upward
from bvh.io.mesh_objects import is_graph
from bvh.picking.results import Pick, Selection
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import Axis, grouped, label, number_of, thread_count, whole_number
from bvh.scene.scene import Scene
from bvh.tree.changes import changes

PORT = 8080
# Seconds between updates of pages.
TICK = 1.0 / 30.0
# Seconds to wait for the last update when the viewer is closed.
PATIENCE = 5.0
# Page coordinates beyond which the page's frame is replaced: the page draws nothing from 500 on.
FARTHEST = 100.0


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

    # Updates are computed with the lock of `_copy` held. At each update a page gets every value at
    # most once, and only if it has changed; scenes that take long to draw, and slow pages, get
    # fewer updates.

    def __init__(
        self, scene: Scene, title: str, up: NDArray[np.float64], max_faces: int,
        threads: int | None, host: str, port: int, origins: Sequence[str] | None, url: str | None,
    ) -> None:  # fmt: skip
        # The arguments are those of `view`, which has checked them; `up` is a unit vector.
        self.scene, self._copy = scene, SceneCopy(scene)
        self._title, self._up, self._max_faces, self._threads = title, up, max_faces, threads
        self._sessions: dict[int, Session] = {}
        self._on_open: Callable[[Session], None] | None = None
        self._last: Session | None = None
        # Whether nothing has been drawn yet: the first content moves the cameras of pages.
        self._empty = True
        self._frame = PageFrame.around(self._copy.scene.bounds)
        self._drawing = self._drawn(None)
        # The count of all changes at the last update, and the version that is drawn.
        self._seen, self._version = -1, self._copy.version
        # Load the kernels of picks before the first click.
        self._copy.scene.pick(self._frame.ray_camera(np.zeros(3), np.ones(3)), 0.5, 0.5)
        # The steps that may fail come before the server starts.
        super().__init__(host, port, "bvh", origins, url)
        eye = first_view(self._copy.scene, self._frame, up).eye
        fov = float(np.radians(WIDE))
        set_up(self._server, up, light=1.2, eye=eye, target=np.zeros(3), fov=fov)
        self._server.gui.configure_theme(**readouts.THEME)
        self._server.gui.main_panel.dock_right()
        self._server.on_client_connect(self._add)
        self._server.on_client_disconnect(self._remove)
        # viser warns if a page is closed while it is updated, which is no error here.
        warnings.filterwarnings("ignore", "Queued a .* on a closed connection", UserWarning)
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)
        self._thread.start()

    @property
    def pick(self) -> Pick | None:
        """The last pick on the page that was opened last, or None."""
        return None if self._last is None else self._last.pick

    @property
    def selection(self) -> Selection | None:
        """The last selection on the page that was opened last, or None."""
        return None if self._last is None else self._last.selecting.found

    @property
    def camera(self) -> Camera | None:
        """The camera of the page that was opened last, in device pixels, or None."""
        return None if self._last is None else self._last.camera()

    def save_html(self, path: str | os.PathLike[str]) -> int:
        """Write the scene as a page of one file that needs no server; return its size in bytes.

        The page can be turned. It shows the meshes above their shadow, with the camera and the last
        pick of the page that was opened last, if there is one. It follows the system's dark mode,
        and loads nothing.

        Parameters
        ----------
        path : str or path-like
            A name that ends in .html, in a folder that exists.

        Examples
        --------
        >>> import bvh
        >>> viewer = bvh.view(([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]))  # doctest: +SKIP
        >>> viewer.save_html("triangle.html")  # doctest: +SKIP
        """
        with self._copy.lock:
            self._copy.follow()
            return write_page(
                path, self._copy.scene, self._title, self._up, self._max_faces, self.camera,
                self.pick,
            )  # fmt: skip

    def _on_each_page(self, begin: Callable[[Session], None]) -> None:
        """Call `begin` with each open page, and with each page that is opened later."""
        with self._copy.lock:
            self._on_open = begin
            for session in list(self._sessions.values()):
                begin(session)

    def _stop_threads(self) -> None:
        self._thread.join(PATIENCE)
        for session in list(self._sessions.values()):
            session.close()

    def __repr__(self) -> str:
        return f"Viewer({'closed' if self.closed else self.url!r}, {self.scene!r})"

    def _add(self, client: Any) -> None:
        """Open the page of a client (viser's handle), with the scene as it is now."""
        with self._copy.lock:
            self._update()
            self._last = Session(
                client, self._copy, self._drawing, self._head(), self._up, self._threads
            )
            self._sessions[client.client_id] = self._last
            if self._on_open is not None:
                self._on_open(self._last)
        # If it disconnected before this call, the event for that has passed.
        if client.client_id not in self._server.get_clients():
            self._remove(client)

    def _remove(self, client: Any) -> None:
        session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()

    def _run(self) -> None:
        """Update the pages after changes, up to 30 times a second, until the viewer is closed."""
        pause = TICK
        while not self._ended.wait(pause):
            began = time.perf_counter()
            if self._sessions and self._seen != changes.count:
                with self._copy.lock:
                    self._update()
            took = time.perf_counter() - began
            # Pause as long as an update took, so that updates use at most half of the time.
            pause = max(TICK - took, took)

    def _update(self) -> None:
        """Send changes of the scene since the last call to all pages; the caller holds the lock."""
        # The count is read first, so that changes during the update are noticed at the next one.
        seen = changes.count
        if self._seen == seen:
            return
        self._seen, was_empty, error = seen, self._empty, None
        try:
            self._copy.follow()
            if self._version == self._copy.version:
                return
            self._version = self._copy.version
            self._drawing = self._drawn(self._drawing)
        except (ValueError, TypeError, MemoryError) as caught:
            error = caught
        head = self._head(error)
        # The first content of a scene that was empty also moves the cameras.
        for session in list(self._sessions.values()):
            session.show(self._drawing, head)
            if was_empty and not self._empty:
                camera = session.client.camera
                eye = first_view(self._copy.scene, self._frame, self._up).eye
                camera.up_direction, camera.position, camera.look_at = self._up, eye, np.zeros(3)

    def _drawn(self, before: PageDrawing | None) -> PageDrawing:
        """Return the drawing of the scene's copy; arrays of the drawing `before` are reused.

        Pages get a new frame if the scene had been empty, or does not fit into the old one.
        """
        scene = self._copy.scene
        drawing = drawing_of(scene, self._frame, self._max_faces, before)
        if not (drawing.parts or len(drawing.boxes)):
            return drawing
        was_empty, self._empty = self._empty, False
        places = [part.copies.places for part in drawing.parts] + [drawing.boxes.reshape(-1, 3)]
        away = max(float(np.abs(each).max(initial=0.0)) for each in places)
        if before is not None and (was_empty or away > FARTHEST):
            self._frame = PageFrame.around(scene.bounds)
            drawing = drawing_of(scene, self._frame, self._max_faces)
        return drawing

    def _head(self, error: Exception | None = None) -> str:
        """Return the head of the panel as HTML, with notices of missing meshes and of an error."""
        notices = []
        if self._drawing.left_out:
            missing, limit = map(grouped, (self._drawing.left_out, self._max_faces))
            notices.append(
                f"{missing} faces are not drawn (limit {limit}): grey boxes stand for them. "
                "Ray-cast pictures show all of them, and picks and rectangles find them."
            )
        if error is not None:
            notices.append(f"The scene is shown as it was: {error}")
        return readouts.header(self._title, _content(self._copy.scene), notices)


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
        Origins of pages that may connect in addition to those of this machine, such as
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
    viewer = Viewer(scene, name, direction, limit, threads, host, port, origins, url)
    if open_browser:
        webbrowser.open(viewer.url)
    return viewer


def _scene_of(source: Any, title: str | None) -> tuple[Scene, str]:
    """Return a scene that shows `source`, as `view` takes it, and `title` or a default title."""
    if isinstance(source, Scene):
        return source, title or "Scene"
    if is_graph(source):
        return Scene.from_trimesh(source), title or "Scene"
    scene = Scene()
    scene.add(source, name=title)
    return scene, title or ("Tree" if isinstance(source, BVH) else "Mesh")


def _content(scene: Scene) -> str:
    """Return text such as "80 triangles in 2 instances"; shared trees count for each instance."""
    leaves = scene.leaves
    sizes = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    content = number_of(sizes[leaves.tree_of].sum(), what, ",")
    if len(leaves) < 2:
        return content
    return f"{content} in {number_of(len(scene), 'instances', ',')}"
