"""`bvh view`: a mesh or a scene in the browser."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bvh.commands.camera_options import axis_or_direction
from bvh.commands.console import one_line, out
from bvh.commands.openings import Flatten, ScenePath, Threads, opened, opened_scene
from bvh.pages import HOST
from bvh.viewer.drawing import MAX_FACES
from bvh.viewer.window import PORT, view


def view_command(
    scene: ScenePath,
    host: Annotated[
        str, typer.Option(help="Address to listen at; others than this let other machines in.")
    ] = HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port, or the next free one; 0 for any.")
    ] = PORT,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only print the address; open no browser.")
    ] = False,
    up: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS|X,Y,Z",
            help="What is up, such as y or 0,1,0; by default what the scene says: y for .glb and "
            ".gltf; z for meshes.",
        ),
    ] = None,
    max_faces: Annotated[
        int,
        typer.Option(min=1, help="Faces that the page is sent; boxes stand for what is beyond."),
    ] = MAX_FACES,
    flatten: Flatten = False,
    threads: Threads = None,
) -> None:
    """Show a mesh or a scene in the browser, until Ctrl-C.

    Drag to orbit, click to pick a face, shift-drag to select faces. The page comes from this
    machine alone; over ssh, forward its port: ssh -L 8080:localhost:8080 machine.
    """
    direction: Any = None if up is None else axis_or_direction(up)
    source: Any
    if flatten:
        source, _, above = opened(scene, threads, flatten=True)
        direction = above if direction is None else direction
    else:
        source, _ = opened_scene(scene, threads)
    viewer = view(
        source, title=scene.name, up=direction, host=host, port=port, open_browser=not no_open,
        max_faces=max_faces, threads=threads,
    )  # fmt: skip
    out.print(f"{one_line(scene.name)}: {viewer.url}  (Ctrl-C ends)")
    try:
        viewer.wait()
    except KeyboardInterrupt:
        pass
    finally:
        viewer.close()
