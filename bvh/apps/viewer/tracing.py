"""Ray-cast pictures of the view of a page: coarse while the camera moves, then fine."""

import math
import threading
from collections.abc import Callable
from copy import copy as copied

import numpy as np
from numpy.typing import NDArray

from bvh.apps.viewer.readouts import picture_text
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.camera.camera import Camera
from bvh.pictures import render
from bvh.pictures.shading import Shade
from bvh.runtime.jit import notice
from bvh.scene.scene import Scene

# Seconds for a picture while the camera moves, and of rest before the fine one.
MOVING, RESTING = 0.08, 0.25
# Fewest and most pixels of a picture.
COARSEST, FINEST = 10_000, 1 << 20
# Share of FINEST of the first picture when the camera has come to rest, before the fine one.
FIRST = 0.125
# Seconds to wait for the picture in progress when the page is closed.
PATIENCE = 5.0


class _OutdatedError(Exception):
    """The camera has moved since the picture was begun."""


class Latest:
    """Coalesces calls of a function: all calls that are made while it runs cause one more run."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._called, self._working = threading.Event(), threading.Lock()

    def __call__(self) -> None:
        """Do the work now, or make the thread that is at work repeat it at its end."""
        self._called.set()
        # If another thread is at work, it looks for calls again after it has released the lock.
        while self._called.is_set() and self._working.acquire(blocking=False):
            try:
                self._called.clear()
                self._work()
            finally:
                self._working.release()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until the work in progress is done; return whether it is.

        Only for the end, as a call made meanwhile may have no effect.
        """
        is_done = self._working.acquire(timeout=seconds)
        if is_done:
            self._working.release()
        return is_done


class Tracer:
    """Caster of a page's ray-cast pictures in a shade, if one is chosen."""

    def __init__(
        self, copy: SceneCopy, camera: Callable[[], Camera],
        show: Callable[[NDArray[np.uint8] | None, str], None], threads: int | None,
    ) -> None:  # fmt: skip
        """Begin without a shade. `copy` is the scene that all pages share.

        `camera` returns the page's current camera. `show` is called with an image (h, w, 3), or
        None for no image, and HTML about it.
        """
        self.camera, self.show, self.threads, self._copy = camera, show, threads, copy
        self.shade: Shade | None = None
        # The share of FINEST of the next picture, 0 for a coarse one; whether the page is closed.
        self._fine, self._closed = 0.0, False
        # Counts changes of view or scene: a picture is outdated if this has grown since its start.
        self._moves = 0
        # From the last picture, to choose the size of the next coarse one.
        self._seconds_per_pixel = 1e-6
        # The timer of the next fine picture.
        self._timer = threading.Timer(RESTING, self._refine)
        # A copy of the scene for pictures, and the version of the page's copy that it has.
        self._scene, self._version = copy.scene, -1
        self._draw = Latest(self._cast)

    def choose(self, shade: Shade | None) -> None:
        """Show pictures of a shade from now on, or none for None."""
        self.shade = shade
        self._start()

    def moved(self) -> None:
        """Cast a coarse picture now, and a fine one when the camera has come to rest."""
        if self.shade is not None:
            self._start()

    def changed(self) -> None:
        """Cast coarse pictures while the scene changes, and a fine one when it has come to rest."""
        if self.shade is None or self._closed:
            return
        # Abandon only a fine picture: a coarse one is finished and shown, as changes may come
        # faster than pictures.
        self._schedule(abandon=self._fine > 0.0)
        # In a thread, so that the caller does not wait for pictures.
        threading.Thread(target=self._draw, name="viewer pictures", daemon=True).start()

    def _start(self) -> None:
        """Cast a coarse picture and schedule a fine one; without a shade, show no image."""
        self._schedule(abandon=True)
        self._draw()

    def _schedule(self, abandon: bool) -> None:
        """Schedule a fine picture in RESTING seconds, in place of one scheduled before.

        The next picture is a coarse one. `abandon` ends the picture in progress.
        """
        self._fine = 0.0
        self._moves += abandon
        self._timer.cancel()
        if self.shade is not None:
            self._timer = threading.Timer(RESTING, self._refine)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Cast nothing more, and wait for the picture in progress."""
        self.shade, self._closed = None, True
        self._timer.cancel()
        self._draw.wait(PATIENCE)

    def _refine(self) -> None:
        """Cast the first of two fine pictures; `_cast` goes on with the second."""
        self._fine = FIRST
        self._draw()

    def _cast(self) -> None:
        """Cast and show a picture of the page's current view, unless it is outdated meanwhile."""
        shade, fine, moves = self.shade, self._fine, self._moves

        def check(*_: int) -> None:
            """End the picture if it is outdated; `render` calls this with its progress."""
            if self._moves != moves or self._closed:
                raise _OutdatedError

        if self._closed:
            return
        if shade is None:
            self.show(None, "")
            return
        view = self.camera()
        # While the camera moves, as many pixels as can be cast in time.
        affordable = min(max(MOVING / self._seconds_per_pixel, COARSEST), FINEST)
        size = reduced(view.width, view.height, int(fine * FINEST if fine else affordable))
        began = notice.clock()
        try:
            scene, small = self._current(), view.resized(*size)
            picture = render(scene, small, shade, threads=self.threads, progress=check)
        except _OutdatedError:
            return
        except ValueError:
            # The scene has nothing left for this shade, such as texture coordinates.
            self.show(None, "")
            return
        except RuntimeError:
            # No threads can be started while the process ends.
            if threading.main_thread().is_alive():
                raise
            return
        seconds = notice.clock() - began
        self._seconds_per_pixel = seconds / (size[0] * size[1])
        # The user may have chosen another shade meanwhile.
        if self.shade == shade:
            text = picture_text(size, picture.rays, picture.seconds, seconds, picture.hottest)
            self.show(picture.pixels, text)
        # After the first fine picture, cast the second, unless it would be no larger.
        if 0.0 < fine < 1.0 and self._moves == moves:
            self._fine = 1.0
            if size != reduced(view.width, view.height, FINEST):
                self._cast()

    def _current(self) -> Scene:
        """Return a copy of the scene as it is now, which no other thread changes."""
        with self._copy.lock:
            self._copy.follow()
            if self._version != self._copy.version:
                self._scene, self._version = copied(self._copy.scene), self._copy.version
            return self._scene


def reduced(width: int, height: int, pixels: int) -> tuple[int, int]:
    """Return a width and height, scaled down to at most `pixels` pixels, each at least 1."""
    share = math.sqrt(pixels / (width * height))
    if share >= 1.0:
        return width, height
    return max(1, math.floor(width * share)), max(1, math.floor(height * share))
