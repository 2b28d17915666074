"""Follower: keeps the pages of a scene up to date with it, in a thread of its own."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer import readouts
from bvh.apps.viewer.drawing import PageDrawing, PageFrame, drawing_of
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.apps.viewer.session import Session
from bvh.camera.camera import Camera
from bvh.runtime.arguments import number_of
from bvh.scene.scene import Scene
from bvh.tree.changes import changes

if TYPE_CHECKING:
    from viser import ClientHandle

FOV = 35.0
# Seconds between looks at the scene; whatever changed meanwhile is sent once.
TICK = 1.0 / 30.0
# Seconds to wait at the end for the update in progress.
PATIENCE = 5.0
# Page coordinates beyond which the page's frame is made anew: it draws nothing from 500 on.
FARTHEST = 100.0


class Follower:
    """The pages of a scene, and what they show.

    All that is sent is decided with the lock of `copy` held. Between two looks a page gets each
    value at most once, and only those that differ from what it has; a scene that takes long to
    draw, or a page that is slow, gets fewer of them.
    """

    def __init__(
        self, scene: Scene, title: str, up: NDArray[np.float64], max_faces: int,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.copy = SceneCopy(scene)
        self._title, self.up, self._max_faces, self._threads = title, up, max_faces, threads
        self._sessions: dict[int, Session] = {}
        self._ended = threading.Event()
        # Set while there is a page, or nothing more to do.
        self._wanted = threading.Event()
        self._empty = True
        self._frame = PageFrame.around(self.copy.scene.bounds)
        self._drawing = self._drawn(None)
        # The count of all changes at the last look, and the version that is drawn.
        self._seen, self._version = -1, self.copy.version
        # Load the kernels of picks before the first click.
        self.copy.scene.pick(self._frame.ray_camera(np.zeros(3), np.ones(3)), 0.5, 0.5)
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)

    def start(self) -> None:
        """Begin to follow the scene."""
        # A page may be closed while it is brought up to date.
        warnings.filterwarnings("ignore", "Queued a .* on a closed connection", UserWarning)
        self._thread.start()

    def stop(self) -> None:
        """End; no page is changed any more."""
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)
        for session in list(self._sessions.values()):
            session.close()

    def add(self, client: ClientHandle) -> Session:
        """Show the scene as it is now to a client."""
        with self.copy.lock:
            self._update()
            session = Session(client, self.copy, self._drawing, self._head(), self._threads)
            self._sessions[client.client_id] = session
            self._wanted.set()
            return session

    def remove(self, client: ClientHandle) -> None:
        """Forget a client that is gone."""
        session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()
        with self.copy.lock:
            if not (self._sessions or self._ended.is_set()):
                self._wanted.clear()

    def first_view(self) -> Camera:
        """Return a camera in page coordinates that sees all; it looks at the origin."""
        bounds = self.copy.scene.bounds
        empty = not np.isfinite(bounds).all()
        box = np.array([[-1.0] * 3, [1.0] * 3]) if empty else self._frame.to_page(bounds)
        return Camera.framing(box, up=self.up, fov_y=FOV)

    def _run(self) -> None:
        """Follow the scene until the end."""
        pause = TICK
        while not self._ended.wait(pause):
            self._wanted.wait()
            began = time.perf_counter()
            if self._seen != changes.count and not self._ended.is_set():
                with self.copy.lock:
                    self._update()
            took = time.perf_counter() - began
            # At least half of the time is left to others.
            pause = max(TICK - took, took)

    def _update(self) -> None:
        """Bring all pages up to date; the lock is held."""
        # Later changes are noticed at the next look.
        seen = changes.count
        if self._seen == seen:
            return
        self._seen, was_empty, error = seen, self._empty, None
        try:
            self.copy.follow()
            if self._version == self.copy.version:
                return
            self._version = self.copy.version
            self._drawing = self._drawn(self._drawing)
        except (ValueError, TypeError, MemoryError) as found:
            error = found
        head = self._head(error)
        for session in list(self._sessions.values()):
            session.show(self._drawing, head)
            if was_empty and not self._empty:
                session.look_from(self.first_view().eye, self.up)

    def _drawn(self, before: PageDrawing | None) -> PageDrawing:
        """Return the drawing of the scene as the copy has it, in a frame that holds it."""
        scene = self.copy.scene
        drawing = drawing_of(scene, self._frame, self._max_faces, before)
        if not (drawing.parts or len(drawing.boxes)):
            return drawing
        was_empty, self._empty = self._empty, False
        places = [part.places for part in drawing.parts] + [drawing.boxes.reshape(-1, 3)]
        away = max(float(np.abs(each).max(initial=0.0)) for each in places)
        if before is not None and (was_empty or away > FARTHEST):
            self._frame = PageFrame.around(scene.bounds)
            drawing = drawing_of(scene, self._frame, self._max_faces)
        return drawing

    def _head(self, error: Exception | None = None) -> str:
        """Return the HTML of the head of the panel."""
        notices = []
        if self._drawing.left_out:
            missing, limit = map(readouts.count, (self._drawing.left_out, self._max_faces))
            notices.append(
                f"{missing} faces are not drawn (limit {limit}): grey boxes stand for them. "
                "Ray-cast pictures show all of them, and picks and rectangles find them."
            )
        if error is not None:
            notices.append(f"The scene is shown as it was: {error}")
        return readouts.header(self._title, _content(self.copy.scene), notices)


def _content(scene: Scene) -> str:
    """Return the numbers of primitives and instances of a scene as text."""
    leaves = scene.leaves
    sizes = np.array([len(tree) for tree in leaves.trees], np.int64)
    kinds = {tree.kind for tree in leaves.trees}
    what = kinds.pop() if len(kinds) == 1 else "primitives"
    content = number_of(readouts.count(int(sizes[leaves.tree_of].sum())), what)
    if len(leaves) < 2:
        return content
    return f"{content} in {number_of(readouts.count(len(scene)), 'instances')}"
