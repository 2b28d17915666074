"""`bvh view` and `bvh lab`: pages in the browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated, Any

import typer

from bvh.apps.cli.camera_options import axis_or_direction
from bvh.apps.cli.console import one_line, out
from bvh.apps.cli.openings import Flatten, ScenePath, Threads, opened, opened_scene
from bvh.apps.lab.page import PORT as LAB_PORT
from bvh.apps.lab.page import ray_lab
from bvh.apps.page_server import HOST
from bvh.apps.viewer.drawing import MAX_FACES
from bvh.apps.viewer.window import PORT, view

Host = Annotated[
    str, typer.Option(help="Address to listen on; only this machine can reach the default.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port, or the next free one; 0 for any.")]
NoOpen = Annotated[
    bool, typer.Option("--no-open", help="Print the address without opening a browser.")
]


def view_command(
    scene: ScenePath,
    host: Host = HOST,
    port: Port = PORT,
    no_open: NoOpen = False,
    up: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS|X,Y,Z",
            help="Up direction, such as y or 0,1,0; by default that of the scene: y for .glb and "
            ".gltf; z for meshes.",
        ),
    ] = None,
    max_faces: Annotated[
        int,
        typer.Option(min=1, help="Limit of faces sent to the page; boxes replace what is beyond."),
    ] = MAX_FACES,
    flatten: Flatten = False,
    threads: Threads = None,
) -> None:
    """Show a mesh or a scene in the browser, until Ctrl-C.

    Drag to orbit, click to pick a face, shift-drag to select faces. The page fetches nothing from
    elsewhere; over ssh, forward its port: ssh -L 8080:localhost:8080 machine.
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


def lab_command(
    host: Host = HOST,
    port: Port = LAB_PORT,
    no_open: NoOpen = False,
) -> None:
    """Open the ray lab, a page on which a ray and a box can be dragged, until Ctrl-C.

    It shows the exact answer beside those of the box tests that articles teach. Over ssh, forward
    its port: ssh -L 8090:localhost:8090 machine.
    """
    with ray_lab(host=host, port=port) as lab:
        out.print(f"ray lab at {lab.url}, until Ctrl-C")
        if not no_open:
            webbrowser.open(lab.url)
        try:
            lab.wait()
        except KeyboardInterrupt:
            out.print("closed")
