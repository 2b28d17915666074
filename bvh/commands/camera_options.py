"""The camera that options of a command describe."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.placement import AXES

MAX_SIDE = 1 << 15
WIDTH, HEIGHT = 800, 600
FOV = 35.0

KINDS = ("look_at", "orthographic", "framing", "from_opencv", "from_matrices")

CameraFile = Annotated[
    str | None,
    typer.Option(
        "--camera",
        metavar="FILE.json|scene",
        help='The camera, instead of --eye, --target, --up, --fov and --ortho. "scene": that of '
        'the SCENE file, as trimesh reads it. Else a file with an object: "kind" is one of '
        f"{', '.join(KINDS)}, all else are arguments of that method of bvh.Camera.",
    ),
]
Eye = Annotated[
    str | None,
    typer.Option(metavar="X,Y,Z", help="Where the camera is; by default it sees everything."),
]
Target = Annotated[
    str | None, typer.Option(metavar="X,Y,Z", help="What it looks at; by default the middle.")
]
Up = Annotated[
    str | None,
    typer.Option(
        metavar="AXIS|X,Y,Z",
        help="What is up in the picture, such as y or 0,1,0; by default what the scene says: "
        "y for .glb and .gltf; z for meshes.",
    ),
]
Fov = Annotated[
    float | None, typer.Option(help=f"Vertical field of view in degrees; {FOV:g} by default.")
]
Ortho = Annotated[
    float | None,
    typer.Option(metavar="HEIGHT", help="Parallel rays; height of the picture in space."),
]
Size = Annotated[
    str | None,
    typer.Option(metavar="WxH", help=f"Device pixels of the picture; {WIDTH}x{HEIGHT} by default."),
]


class CameraOptions(NamedTuple):
    """The options as they were given; None for those that were not."""

    camera: str | None
    eye: str | None
    target: str | None
    up: str | None
    fov: float | None
    ortho: float | None
    size: str | None
    y: str | None = None
    pixel_ratio: float | None = None

    def made(self, path: Path, bounds: NDArray[np.float64], up: str, read: Any) -> Camera:
        """Return the camera of the options, one that sees all of the bounds by default.

        Parameters
        ----------
        path : Path
            Of the mesh or scene.
        bounds : ndarray, shape (2, 3)
        up : str
            The axis that is up there.
        read : trimesh.Scene, trimesh.Trimesh or None
            What trimesh has read from there.
        """
        pixels = None if self.size is None else _pixels(self.size)
        if self.camera is not None:
            for name in ("eye", "target", "up", "fov", "ortho"):
                if getattr(self, name) is not None:
                    raise ValueError(f"--camera says where to look from; leave out --{name}")
            if self.camera == "scene":
                return self._of_scene(path, read, pixels)
            return self._of_file(Path(self.camera), bounds, up, pixels)
        if self.ortho is not None and self.fov is not None:
            raise ValueError("--ortho has no --fov: its rays are parallel")
        if self.eye is None and self.target is not None:
            raise ValueError("--target needs --eye, too")
        told = self._picture(pixels or (WIDTH, HEIGHT))
        told["up"] = up if self.up is None else axis_or_direction(self.up)
        fov = FOV if self.fov is None else self.fov
        if self.eye is None:
            if not np.isfinite(bounds).all():
                raise ValueError("there is nothing to look at; give --eye and --target")
            framing = Camera.framing(bounds, fov_y=fov, **told)
            if self.ortho is None:
                return framing
            eye, target = framing.eye, framing.eye + framing.forward
        else:
            eye = triple("--eye", self.eye)
            target = bounds.mean(axis=0) if self.target is None else triple("--target", self.target)
        if self.ortho is not None:
            return Camera.orthographic(eye, target, view_height=self.ortho, **told)
        return Camera.look_at(eye, target, fov_y=fov, **told)

    def _picture(self, pixels: tuple[int, int] | None) -> dict[str, Any]:
        """Return the arguments that all cameras share, as far as they were given."""
        told: dict[str, Any] = {}
        if pixels is not None:
            told["width"], told["height"] = pixels
        if self.y is not None:
            told["y"] = self.y
        if self.pixel_ratio is not None:
            told["pixel_ratio"] = self.pixel_ratio
        return told

    def _of_scene(self, path: Path, read: Any, pixels: tuple[int, int] | None) -> Camera:
        """Return the camera in a scene's file."""
        if not getattr(read, "has_camera", False):
            raise ValueError(f"--camera scene: there is no camera in {path}")
        camera = Camera.from_trimesh(read, **self._picture(None))
        return camera.resized(*pixels) if pixels else camera

    def _of_file(
        self, path: Path, bounds: NDArray[np.float64], up: str, pixels: tuple[int, int] | None
    ) -> Camera:
        """Return the camera that a JSON file describes."""
        if not path.is_file():
            raise FileNotFoundError(f"--camera: no such file: {path}")
        try:
            told = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"--camera: cannot read {path} as JSON: {error}") from error
        kind = told.pop("kind", None) if isinstance(told, dict) else None
        if kind not in KINDS:
            kinds = ", ".join(KINDS)
            raise ValueError(f'--camera: {path} must be an object with a "kind" of {kinds}')
        parameters = inspect.signature(getattr(Camera, kind)).parameters
        strange = [name for name in told if name not in parameters]
        if strange:
            raise ValueError(f"--camera: {path}: {kind} has no {', '.join(map(repr, strange))}")
        # A picture of another size shows the same view.
        resized = pixels if pixels and ("width" in told or "height" in told) else None
        if not ("width" in told or "height" in told):
            told["width"], told["height"] = pixels or (WIDTH, HEIGHT)
        if kind == "framing":
            told.setdefault("bounds", bounds)
            told.setdefault("up", up)
        told |= self._picture(None)
        needed = [k for k, v in parameters.items() if v.default is v.empty and k not in told]
        if needed:
            raise ValueError(f"--camera: {path}: {kind} needs {', '.join(map(repr, needed))}")
        try:
            camera: Camera = getattr(Camera, kind)(**told)
        except (ValueError, TypeError) as error:
            raise ValueError(f"--camera: {path}: {error}") from error
        return camera.resized(*resized) if resized else camera


def numbers_of(name: str, text: str, count: int, example: str) -> list[float]:
    """Return the numbers of an option, of which there must be so many."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count:
        words = {2: "two", 3: "three", 4: "four"}[count]
        raise ValueError(f"{name} must be {words} numbers such as {example}, got {text!r}")
    return found


def triple(name: str, text: str) -> NDArray[np.float64]:
    """Return the point or direction of an option."""
    return np.array(numbers_of(name, text, 3, "1,2,3"))


def axis_or_direction(given: str) -> str | NDArray[np.float64]:
    """Return what --up says: an axis by its name, or a direction."""
    return given if given in AXES else triple("--up", given)


def _pixels(size: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in size.lower().split("x"))
    except ValueError:
        raise ValueError(f"--size must look like {WIDTH}x{HEIGHT}, got {size!r}") from None
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"--size must be at most {MAX_SIDE}x{MAX_SIDE}, got {size!r}")
    return width, height
