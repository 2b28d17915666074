"""Options that describe a camera, and the decorator that adds them to a command."""

# Without `from __future__ import annotations`, because typer reads those of `CameraOptions`.
import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typer import Option

from bvh.camera.camera import Camera
from bvh.camera.placement import AXES
from bvh.pictures.render_source import Pictured

MAX_SIDE = 1 << 15
WIDTH, HEIGHT = 800, 600
FOV = 35.0

KINDS = ("look_at", "orthographic", "framing", "from_opencv", "from_matrices")

Text = str | None
Number = float | None
Up = Annotated[Text, Option(
    metavar="AXIS|X,Y,Z", help="Up direction, such as y, -z or 0,1,0; by default that of the "
    "scene: y for .glb and .gltf; z for meshes.",
)]  # fmt: skip


class CameraOptions(NamedTuple):
    """Options of a command; None for those that are not given."""

    camera: Annotated[Text, Option(
        metavar="FILE.json|scene", help='The camera, instead of --eye, --target, --up, --fov and '
        '--ortho. "scene": that of the SCENE file, as trimesh reads it. Else a file with an '
        f'object: "kind" is one of {", ".join(KINDS)}; its other members are arguments of that '
        "method of bvh.Camera.",
    )] = None  # fmt: skip
    eye: Annotated[Text, Option(metavar="X,Y,Z", help=
        "Position of the camera; by default the whole scene is in view.")] = None  # fmt: skip
    target: Annotated[Text, Option(metavar="X,Y,Z", help=
        "Point it looks at; by default the centre of all.")] = None  # fmt: skip
    up: Up = None
    fov: Annotated[Number, Option(
        help=f"Vertical field of view in degrees; {FOV:g} by default.")] = None  # fmt: skip
    ortho: Annotated[Number, Option(metavar="HEIGHT", help=
        "Parallel rays; height of the picture in space.")] = None  # fmt: skip
    size: Annotated[Text, Option(metavar="WxH", help=
        f"Device pixels of the picture; {WIDTH}x{HEIGHT} by default.")] = None  # fmt: skip

    def camera_of(self, path: Path, source: Pictured, up: str, read: object) -> Camera:
        """Return the camera, by default one that sees all.

        `up` is the up axis of the file at `path`, and `read` its trimesh object, or None.
        """
        pixels = None if self.size is None else _pixels(self.size)
        if self.camera is not None:
            for name in ("eye", "target", "up", "fov", "ortho"):
                if getattr(self, name) is not None:
                    raise ValueError(f"--camera says where to look from; leave out --{name}")
            if self.camera == "scene":
                if not getattr(read, "has_camera", False):
                    raise ValueError(f"--camera scene: there is no camera in {path}")
                found = Camera.from_trimesh(read)
                return found.resized(*pixels) if pixels else found
            return self._of_file(Path(self.camera), source, up, pixels)
        if self.ortho is not None and self.fov is not None:
            raise ValueError("--ortho has no --fov: its rays are parallel")
        if self.eye is None and self.target is not None:
            raise ValueError("--target needs --eye, too")
        width, height = pixels or (WIDTH, HEIGHT)
        upward: Any = up if self.up is None else axis_or_direction(self.up)
        arguments: dict[str, Any] = {"width": width, "height": height, "up": upward}
        fov = FOV if self.fov is None else self.fov
        if self.eye is None:
            if not np.isfinite(source.bounds).all():
                raise ValueError("there is nothing to look at; give --eye and --target")
            framing = Camera.framing(source, fov_y=fov, **arguments)
            if self.ortho is None:
                return framing
            eye, target = framing.eye, framing.eye + framing.forward
        else:
            eye = triple("--eye", self.eye)
            target = source.bounds.mean(axis=0)
            if self.target is not None:
                target = triple("--target", self.target)
        if self.ortho is not None:
            return Camera.orthographic(eye, target, view_height=self.ortho, **arguments)
        return Camera.look_at(eye, target, fov_y=fov, **arguments)

    def _of_file(self, path: Path, seen: Pictured, up: str, size: tuple[int, int] | None) -> Camera:
        """Return the camera of a JSON file; by default it frames `seen`, with that up axis."""
        if not path.is_file():
            raise FileNotFoundError(f"--camera: no such file: {path}")
        try:
            arguments = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"--camera: cannot read {path} as JSON: {error}") from error
        kind = arguments.pop("kind", None) if isinstance(arguments, dict) else None
        if kind not in KINDS:
            kinds = ", ".join(KINDS)
            raise ValueError(f'--camera: {path} must be an object with a "kind" of {kinds}')
        parameters = inspect.signature(getattr(Camera, kind)).parameters
        unknown = [name for name in arguments if name not in parameters]
        if unknown:
            raise ValueError(f"--camera: {path}: {kind} has no {', '.join(map(repr, unknown))}")
        sized = "width" in arguments or "height" in arguments
        if not sized:
            arguments["width"], arguments["height"] = size or (WIDTH, HEIGHT)
        if kind == "framing":
            arguments.setdefault("bounds", seen)
            arguments.setdefault("up", up)
        needed = [k for k, v in parameters.items() if v.default is v.empty and k not in arguments]
        if needed:
            raise ValueError(f"--camera: {path}: {kind} needs {', '.join(map(repr, needed))}")
        try:
            camera: Camera = getattr(Camera, kind)(**arguments)
        except (ValueError, TypeError) as error:
            raise ValueError(f"--camera: {path}: {error}") from error
        # If the file has a size, too, --size shows the same view at another one.
        return camera.resized(*size) if sized and size else camera


# The default of the parameter that `with_camera` replaces.
NO_CAMERA = CameraOptions()


def with_camera(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: its parameter ``camera`` becomes the options of a camera."""
    types = CameraOptions.__annotations__
    signature = inspect.signature(command, eval_str=True)
    parameters = list(signature.parameters.values())
    at = list(signature.parameters).index("camera")
    parameters[at : at + 1] = [
        inspect.Parameter(name, parameters[at].kind, default=None, annotation=annotation)
        for name, annotation in types.items()
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        camera = CameraOptions(**{name: given.pop(name) for name in types})
        command(**given, camera=camera)

    # typer reads the signature and the annotations.
    with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def numbers_of(name: str, text: str, count: int, example: str) -> list[float]:
    """Return the numbers of an option, of which there must be `count`."""
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
    """Return the value of --up: the name of an axis, or a direction."""
    name = given.lower().removeprefix("+")
    if name in AXES:
        return name
    if "," not in given:
        names = f"three numbers such as 0,0,1, or one of {', '.join(AXES)}"
        raise ValueError(f"--up must be {names}; got {given!r}")
    return triple("--up", given)


def _pixels(size: str) -> tuple[int, int]:
    """Return width and height of the value of --size."""
    try:
        width, height = (int(part) for part in size.lower().split("x"))
    except ValueError:
        raise ValueError(f"--size must look like {WIDTH}x{HEIGHT}, got {size!r}") from None
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"--size must be at most {MAX_SIDE}x{MAX_SIDE}, got {size!r}")
    return width, height
