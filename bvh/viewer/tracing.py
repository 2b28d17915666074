"""Pictures of what a page sees, cast by our own rays: coarse while the camera moves, then fine."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.pictures import render
from bvh.scene import Scene
from bvh.viewer.latest import Latest
from bvh.viewer.readouts import picture_told

# Seconds that a picture may take while the camera moves, and for how long it then has to rest.
MOVING, RESTING = 0.08, 0.25
# Pixels of a picture: at least while moving, and at most.
COARSEST, FINEST = 10_000, 1 << 20
# Seconds to wait for a picture that nobody wants any more.
PATIENCE = 5.0


class _OutdatedError(Exception):
    """Somebody has moved the camera."""


class Tracer:
    """Casts pictures of a scene for a page.

    Parameters
    ----------
    scene : Scene
    camera : callable
        Returns the camera that the page has now.
    show : callable
        Called as show(pixels, told): an image (h, w, 3) of uint8 and HTML about it, or None and
        nothing.
    threads : int or None
    """

    def __init__(
        self,
        scene: Scene,
        camera: Callable[[], Camera],
        show: Callable[[NDArray[np.uint8] | None, str], None],
        threads: int | None,
    ) -> None:
        self.scene, self.camera, self.show, self.threads = scene, camera, show, threads
        self.shade: str | None = None
        self._fine = self._closed = False
        # How often the camera has moved, or another shade was chosen.
        self._moves = 0
        self._seconds_a_pixel = 1e-6
        self._timer: threading.Timer | None = None
        self._draw = Latest(self._cast)

    def choose(self, shade: str | None) -> None:
        """Show pictures of a shade from now on, or none."""
        self.shade = shade
        self.moved()

    def moved(self) -> None:
        """Follow the camera: a coarse picture now, a fine one when it has come to rest."""
        self.stop()
        self._fine = False
        self._moves += 1
        if self.shade is not None:
            self._timer = threading.Timer(RESTING, self._refine)
            self._timer.daemon = True
            self._timer.start()
        self._draw()

    def close(self) -> None:
        """Cast no more, and wait for what is under way."""
        self.shade = None
        self.stop()
        self._closed = True
        self._draw.rest(PATIENCE)

    def stop(self) -> None:
        """Let go of the picture that was to come."""
        if self._timer is not None:
            self._timer.cancel()

    def _refine(self) -> None:
        self._fine = True
        self._draw()

    def _cast(self) -> None:
        """Cast and show one picture."""
        shade, fine, moves = self.shade, self._fine, self._moves

        def go_on(*_: Any) -> None:
            # A finer picture of the same view can wait for this one.
            if self._moves != moves or self._closed:
                raise _OutdatedError

        if self._closed:
            return
        if shade is None:
            self.show(None, "")
            return
        camera = self.camera()
        size = reduced(camera.width, camera.height, FINEST if fine else self._affordable())
        began = time.perf_counter()
        try:
            camera = camera.resized(*size)
            picture = render(self.scene, camera, shade, threads=self.threads, progress=go_on)
        except _OutdatedError:
            return
        except RuntimeError:
            # Threads cannot be had while the process ends.
            if threading.main_thread().is_alive():
                raise
            return
        seconds = time.perf_counter() - began
        self._seconds_a_pixel = seconds / (size[0] * size[1])
        if self.shade == shade:
            told = picture_told(size, picture.rays, picture.seconds, seconds, picture.hottest)
            self.show(picture.pixels, told)

    def _affordable(self) -> int:
        """Return how many pixels can be had while the camera moves."""
        return int(min(max(MOVING / self._seconds_a_pixel, COARSEST), FINEST))


def reduced(width: int, height: int, pixels: int) -> tuple[int, int]:
    """Return a size of the same shape with at most so many pixels, or that size if it has."""
    share = math.sqrt(pixels / (width * height))
    if share >= 1.0:
        return width, height
    return max(1, math.floor(width * share)), max(1, math.floor(height * share))
