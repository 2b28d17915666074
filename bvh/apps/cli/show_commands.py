"""`bvh render`, `view`, `demo` and `lab`: pictures, and pages in the browser."""

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Option

from bvh.apps.cli import camera_options as options
from bvh.apps.cli import files
from bvh.apps.cli.console import bar, mebibytes, one_line, out, rays_in
from bvh.apps.demo import Motion, demo_scene
from bvh.apps.lab import page as lab_page
from bvh.apps.page_server import HOST, Page
from bvh.apps.viewer.drawing import MAX_FACES
from bvh.apps.viewer.html_export import check_page_path, write_page
from bvh.apps.viewer.window import PORT, view
from bvh.camera.placement import upward
from bvh.pictures.picture import NUMBERS, check_picture_path, with_legend
from bvh.pictures.rendering import render
from bvh.pictures.shading import DATA, SHADES, Shade
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import check_option
from bvh.scene.scene import Scene

Host = Annotated[str, Option(help="Address to listen on; only this machine can reach the default.")]
Port = Annotated[int, Option(help="Port, or the next free one; 0 for any.")]
NoOpen = Annotated[bool, Option("--no-open", help="Print the address without opening a browser.")]
Origins = Annotated[list[str] | None, Option(
    "--origin", metavar="ORIGIN", help="Origin of pages that may connect, besides this machine's: "
    "that of a proxy, such as https://hub.example.org. May be given again; also BVH_ORIGINS.",
)]  # fmt: skip
Url = Annotated[str | None, Option(
    help="Address under which browsers find the page, with {port} for its port; also BVH_URL.",
)]  # fmt: skip


def render_command(
    scene: files.PartsPath,
    output: Annotated[Path, Option(
        "--output", "-o", help="Picture to write, or .npy for numbers.")],
    *,
    shade: Annotated[Shade, Option(parser=str, help=f"One of: {', '.join(SHADES)}.")] = "normals",
    eye: options.Eye = None, target: options.Target = None, up: options.Up = None,
    fov: options.Fov = None, ortho: options.Ortho = None, size: options.Size = None,
    samples: Annotated[int, Option(help="Rays along each side of a pixel.")] = 2,
    lamp: Annotated[str | None, Option(metavar="X,Y,Z", help=
        "Direction to the lamp; by default behind the camera, up left.")] = None,
    softness: Annotated[float, Option(
        metavar="DEGREES", help="Size of the lamp; 0 throws hard shadows.")] = 0.0,
    light_rays: Annotated[int, Option(
        help="Rays from each hit to the sky, and to a soft lamp.")] = 16,
    reach: Annotated[float | None, Option(help=
        "How far away an occluder may be (ao); by default a share of the scene's size.")] = None,
    ground: Annotated[bool | None, Option("--ground/--no-ground", help=
        "Soft shadow on the plane below; by default in clay and material.")] = None,
    threads: files.Threads = None, memory: files.Memory = None,
) -> None:  # fmt: skip
    """Render a picture of a mesh, a scene or parts by casting rays.

    A .npy file holds the numbers behind the picture, one for each pixel: distances with infinity
    for misses (depth), ids with -1 (id, instance), normals or uv with NaN, counts of visited nodes
    and groups of triangles (cost), the visible share of the sky (ao) or of the lamp (shadow); for
    clay and material the pixels themselves. A picture of costs has a legend in its lower left
    corner.
    """
    check_picture_path(output)
    check_option("shade", shade, SHADES)
    numbers = output.suffix.lower() == NUMBERS
    direction = None if lamp is None else options.triple("--lamp", lamp)
    source, read, axis = files.opened_parts(scene, threads, memory=memory)
    camera = options.camera_of(
        source, axis, eye=eye, target=target, up=up, fov=fov, ortho=ortho, size=size
    )
    subject = source
    thin = isinstance(source, BVH) and source.kind in ("points", "segments")
    if shade in ("uv", "material") and isinstance(source, BVH) and read is not None and not thin:
        # Trees have no texture coordinates and no colours. Points and segments are not drawn in
        # scenes, whose rays pass them.
        subject = Scene()
        subject.add(read)
    with bar("rendering") as progress:
        picture = render(
            subject, camera, shade, samples=1 if numbers else samples,
            data=shade if numbers and shade in DATA else (), lamp=direction, softness=softness,
            light_rays=light_rays, reach=reach, ground=ground, threads=threads, progress=progress,
        )  # fmt: skip
    (picture if numbers else with_legend(picture)).save(output)
    out.print(f"{output}: {camera.width} x {camera.height} pixels, {files.content_of(source)}")
    out.print(f"{rays_in(picture.rays, picture.seconds)}, with shading")


def view_command(
    scene: files.ScenePath, *, host: Host = HOST, port: Port = PORT, no_open: NoOpen = False,
    origins: Origins = None, url: Url = None, up: options.Up = None,
    max_faces: Annotated[int, Option(help=
        "Limit of faces sent to the page; boxes replace what is beyond.")] = MAX_FACES,
    threads: files.Threads = None,
    html: Annotated[Path | None, Option(metavar="FILE", help=
        "Write the page to a file that needs no server, and end.")] = None,
) -> None:  # fmt: skip
    """Show a mesh or a scene in the browser, until Ctrl-C; or write a page that needs no server.

    Click to pick a face; the panel selects, measures, cuts and lists instances. The page fetches
    nothing from elsewhere; over ssh, forward its port: ssh -L 8080:localhost:8080 machine.
    """
    if html is not None:
        check_page_path(html)
    direction = None if up is None else options.axis_or_direction(up)
    source = files.opened_scene(scene, threads)
    if html is not None:
        axis = upward(source.up if direction is None else direction)
        size = write_page(html, source, scene.name, axis, max_faces)
        out.print(f"{html}: {files.content_of(source)}, {mebibytes(size)}")
        return
    viewer = view(
        source, title=scene.name, up=direction, host=host, port=port, max_faces=max_faces,
        threads=threads, origins=origins, url=url,
    )  # fmt: skip
    _wait(scene.name, viewer, no_open)


def demo_command(
    host: Host = HOST, port: Port = PORT, no_open: NoOpen = False, origins: Origins = None,
    url: Url = None,
) -> None:  # fmt: skip
    """Open a scene that comes with the package, with things to try in it, until Ctrl-C.

    Over ssh, forward its port: ssh -L 8080:localhost:8080 machine.
    """
    scene, moons = demo_scene()
    viewer = view(scene, title="demo", host=host, port=port, origins=origins, url=url)
    Motion(viewer, moons)  # Adds buttons to its pages, and a thread that moves the moons.
    _wait("demo", viewer, no_open)


def lab_command(
    host: Host = HOST, port: Port = lab_page.PORT, no_open: NoOpen = False, origins: Origins = None,
    url: Url = None,
) -> None:  # fmt: skip
    """Open the ray lab, a page on which a ray and a box can be dragged, until Ctrl-C.

    It shows the exact answer and those of common box tests. Over ssh, forward
    its port: ssh -L 8090:localhost:8090 machine.
    """
    lab = lab_page.ray_lab(host=host, port=port, origins=origins, url=url)
    _wait("ray lab", lab, no_open)


def _wait(name: str, page: Page, no_open: bool) -> None:
    """Print the address of a page, open it unless `no_open`, and serve it until Ctrl-C."""
    out.print(f"{one_line(name)}: {page.url}  (Ctrl-C ends)")
    if not no_open:
        webbrowser.open(page.url)
    with page, suppress(KeyboardInterrupt):
        page.wait()
