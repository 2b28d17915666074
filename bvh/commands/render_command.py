"""`bvh render`: a picture, or the numbers behind one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bvh.commands.ahead import compile_ahead
from bvh.commands.camera_options import (
    CameraFile,
    CameraOptions,
    Eye,
    Fov,
    Ortho,
    Size,
    Target,
    Up,
    triple,
)
from bvh.commands.console import bar, out, rate
from bvh.commands.contents import content_of
from bvh.commands.openings import ScenePath, Threads, opened
from bvh.pictures.legends import with_legend
from bvh.pictures.picture import NUMBERS, check_picture_path
from bvh.pictures.rendering import render
from bvh.pictures.shading import DATA, SHADES
from bvh.scene import Scene


def render_command(
    scene: ScenePath,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Picture to write, or .npy for numbers.")
    ],
    shade: Annotated[str, typer.Option(help=f"One of: {', '.join(SHADES)}.")] = "normals",
    camera: CameraFile = None,
    eye: Eye = None,
    target: Target = None,
    up: Up = None,
    fov: Fov = None,
    ortho: Ortho = None,
    size: Size = None,
    samples: Annotated[int, typer.Option(min=1, help="Rays along each side of a pixel.")] = 2,
    lamp: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y,Z", help="Direction to the lamp; by default behind the camera, up left."
        ),
    ] = None,
    softness: Annotated[
        float, typer.Option(metavar="DEGREES", help="Size of the lamp; 0 throws hard shadows.")
    ] = 0.0,
    light_rays: Annotated[
        int, typer.Option(min=1, help="Rays from each hit to the sky, and to a soft lamp.")
    ] = 16,
    reach: Annotated[
        float | None,
        typer.Option(
            help="How far what hides the sky may be; a share of everything's size if not."
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Render a picture of a mesh or a scene by casting rays.

    A .npy file holds the numbers behind the picture, one for each pixel: distances with infinity
    for misses (depth), ids with -1 (id, instance), normals or uv with NaN, what a ray visits
    (cost), the share of the sky (ao) or of the lamp (shadow); for clay the pixels themselves.
    A picture of costs has a legend in its lower left corner.
    """
    check_picture_path(output)
    if shade not in SHADES:
        raise ValueError(f"shade must be one of {SHADES}, got {shade!r}")
    compile_ahead(scene, counters=shade == "cost")
    source, read, above = opened(scene, threads)
    options = CameraOptions(camera, eye, target, up, fov, ortho, size)
    view = options.made(scene, source.bounds, above, read)
    numbers = output.suffix.lower() == NUMBERS
    # One ray first: compiling is not casting.
    source.closest_hit(view.eye[None], view.forward[None], counters=shade == "cost")
    looked_at = source
    if shade == "uv" and not isinstance(source, Scene) and read is not None:
        # Trees know nothing of texture coordinates.
        looked_at = Scene()
        looked_at.add(read)
    with bar("rendering") as progress:
        picture = render(
            looked_at,
            view,
            shade,
            samples=1 if numbers else samples,
            data=(shade,) if numbers and shade in DATA else (),
            lamp=None if lamp is None else triple("--lamp", lamp),
            softness=softness,
            light_rays=light_rays,
            reach=reach,
            threads=threads,
            progress=progress,
        )
    (picture if numbers else with_legend(picture)).save(output)
    out.print(f"{output}: {view.width} x {view.height} pixels, {content_of(source)}")
    out.print(rate(picture.rays, picture.seconds))
