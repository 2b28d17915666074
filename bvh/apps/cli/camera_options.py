"""Options of commands that describe a camera."""

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import Option

from bvh.camera.camera import Camera
from bvh.camera.placement import AXES
from bvh.pictures.render_source import Pictured

MAX_SIDE = 1 << 15
WIDTH, HEIGHT, FOV = 800, 600, 35.0

Eye = Annotated[str | None, Option(metavar="X,Y,Z", help=
    "Position of the camera; by default the whole scene is in view.")]  # fmt: skip
Target = Annotated[str | None, Option(metavar="X,Y,Z", help=
    "Point it looks at; by default the centre of all.")]  # fmt: skip
Up = Annotated[str | None, Option(
    metavar="AXIS|X,Y,Z", help="Up direction, such as y, -z or 0,1,0; by default that of the "
    "scene: y for .glb and .gltf; z for meshes.",
)]  # fmt: skip
Fov = Annotated[float | None, Option(
    help=f"Vertical field of view in degrees; {FOV:g} by default.")]  # fmt: skip
Ortho = Annotated[float | None, Option(metavar="HEIGHT", help=
    "Parallel rays; height of the picture in space.")]  # fmt: skip
Size = Annotated[str | None, Option(metavar="WxH", help=
    f"Device pixels of the picture; {WIDTH}x{HEIGHT} by default.")]  # fmt: skip


def camera_of(
    source: Pictured, axis: str, *, eye: str | None = None, target: str | None = None,
    up: str | None = None, fov: float | None = None, ortho: float | None = None,
    size: str | None = None,
) -> Camera:  # fmt: skip
    """Return the camera that the options of a command describe.

    Options are as typed, or None. Without `eye` the camera sees all of `source`, and without `up`
    the direction `axis`, such as "z", is up. `fov` is in degrees, `ortho` the height of a view with
    parallel rays, in world units.
    """
    if ortho is not None and fov is not None:
        raise ValueError("--ortho has no --fov: its rays are parallel")
    if eye is None and target is not None:
        raise ValueError("--target needs --eye, too")
    width, height = (WIDTH, HEIGHT) if size is None else _pixels(size)
    upward = axis if up is None else axis_or_direction(up)
    shared: dict[str, Any] = {"width": width, "height": height, "up": upward}
    fov = FOV if fov is None else fov
    if eye is None:
        if not np.isfinite(source.bounds).all():
            raise ValueError("there is nothing to look at; give --eye and --target")
        framing = Camera.framing(source, fov_y=fov, **shared)
        if ortho is None:
            return framing
        eye_and_target = framing.eye, framing.eye + framing.forward
    else:
        position, centre = triple("--eye", eye), source.bounds.mean(axis=0)
        eye_and_target = position, centre if target is None else triple("--target", target)
    if ortho is not None:
        return Camera.orthographic(*eye_and_target, view_height=ortho, **shared)
    return Camera.look_at(*eye_and_target, fov_y=fov, **shared)


def triple(name: str, text: str) -> NDArray[np.float64]:
    """Return the point or direction (3,) in the text of an option, which errors call `name`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []  # Rejected below.
    if len(numbers) != 3:
        raise ValueError(f"{name} must be three numbers such as 1,2,3, got {text!r}")
    return np.array(numbers)


def axis_or_direction(text: str) -> str | NDArray[np.float64]:
    """Return what the text of --up means: the name of an axis, or a direction, shape (3,)."""
    name = text.lower().removeprefix("+")
    if name in AXES:
        return name
    if "," not in text:
        names = f"three numbers such as 0,0,1, or one of {', '.join(AXES)}"
        raise ValueError(f"--up must be {names}; got {text!r}")
    return triple("--up", text)


def _pixels(size: str) -> tuple[int, int]:
    """Return the width and height in a value of --size; cameras reject those below 1."""
    try:
        width, height = (int(part) for part in size.lower().split("x"))
    except ValueError:
        raise ValueError(f"--size must look like {WIDTH}x{HEIGHT}, got {size!r}") from None
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"--size must be at most {MAX_SIDE}x{MAX_SIDE}, got {size!r}")
    return width, height
