"""The command line: info, stats, build, cast, render, warmup."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

import bvh
from bvh.camera import Camera
from bvh.jit import cache_directory, warmup
from bvh.ray_files import HIT_ENDINGS, read_rays, write_hits
from bvh.render import SHADES, check_picture_path, render
from bvh.sources import load_mesh
from bvh.storage import is_saved_tree, load
from bvh.tree import BVH

app = typer.Typer(
    name="bvh",
    help="Cast rays at meshes: the exact nearest hit.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

MAX_SIDE = 1 << 15

MeshPath = Annotated[Path, typer.Argument(metavar="MESH", help="Any file that trimesh reads.")]
MeshOrTree = Annotated[
    Path, typer.Argument(metavar="MESH", help="Any file that trimesh reads, or a saved tree.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; one for each CPU by default.")]
Size = Annotated[str, typer.Option(metavar="WxH", help="Pixels of the picture.")]
Eye = Annotated[str | None, typer.Option(metavar="X,Y,Z", help="Where the camera is.")]
Target = Annotated[str | None, typer.Option(metavar="X,Y,Z", help="What it looks at.")]
Up = Annotated[str, typer.Option(metavar="X,Y,Z", help="What is up in the picture.")]
Fov = Annotated[float, typer.Option(help="Vertical field of view in degrees.")]


def run() -> None:
    """Run the command; what goes wrong is told in one line, with exit code 2."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        err.print(f"bvh: {text}", markup=False)
        sys.exit(2)


@app.command()
def info(
    mesh: MeshPath,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Tell a mesh's size, and the cost, depth and memory of its tree."""
    loaded = load_mesh(mesh)
    tree = _build(loaded, threads)
    figures: dict[str, Any] = {
        "file": str(mesh),
        "vertices": len(tree.vertices),
        "triangles": len(tree),
        "lower": tree.bounds[0].tolist(),
        "upper": tree.bounds[1].tolist(),
        "watertight": bool(loaded.is_watertight),
        **{k: v for k, v in asdict(tree.stats()).items() if k != "primitives"},
    }
    if as_json:
        # Bounds of an empty mesh are NaN, which JSON does not know.
        print(json.dumps(_without_nan(figures)))  # noqa: T201
        return
    table = Table(show_header=False, box=None)
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), _text(name, value))
    out.print(table)


@app.command()
def stats(
    mesh: MeshOrTree,
    epo: Annotated[
        bool, typer.Option("--epo", help="Compute the effective partial overlap, too: slow.")
    ] = False,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Tell the shape, cost and memory of a tree, saved or built from a mesh."""
    told = _tree(mesh, threads).stats(epo=epo)
    print(json.dumps(_without_nan(asdict(told))) if as_json else told)  # noqa: T201


@app.command()
def build(
    mesh: MeshPath,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write the tree to.")],
    quality: Annotated[str, typer.Option(help="low, medium or high.")] = "medium",
    threads: Threads = None,
) -> None:
    """Build the tree of a mesh and save it, for all commands that take a saved tree."""
    _check_folder(output)
    tree = _build(load_mesh(mesh), threads, quality)
    tree.save(output, threads=threads)
    out.print(f"{output}: {len(tree)} triangles, {output.stat().st_size / 2**20:.2f} MiB")


@app.command()
def cast(
    mesh: MeshOrTree,
    rays: Annotated[
        Path | None,
        typer.Option(help="Rays: .npy or .csv with columns ox oy oz dx dy dz [t_min t_max]."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Hits: .npz or .csv.")
    ] = None,
    eye: Eye = None,
    target: Target = None,
    up: Up = "0,0,1",
    fov: Fov = 35.0,
    size: Size = "800x600",
    threads: Threads = None,
) -> None:
    """Cast rays from a file, or a camera's, and write the nearest hits.

    Without --rays the rays are those of a camera, which frames the whole mesh unless --eye and
    --target say otherwise.
    """
    if output is not None and output.suffix not in HIT_ENDINGS:
        raise ValueError(f"--output must end in .npz or .csv, got {output}")
    if output is not None:
        _check_folder(output)
    columns = read_rays(rays) if rays is not None else None
    tree = _tree(mesh, threads)
    if columns is None:
        origins, directions = _camera(tree, eye, target, up, fov, size).rays()
        columns = np.column_stack([origins.reshape(-1, 3), directions.reshape(-1, 3)])
    t_min = columns[:, 6] if columns.shape[1] == 8 else np.zeros(1)
    t_max = columns[:, 7] if columns.shape[1] == 8 else np.full(1, np.inf)
    # One ray first: compiling is not casting.
    tree.closest_hit(columns[:1, :3], columns[:1, 3:6])
    with _bar("casting") as progress:
        began = time.perf_counter()
        hits = tree.closest_hit(
            columns[:, :3], columns[:, 3:6], t_min, t_max, threads=threads, progress=progress
        )
        seconds = time.perf_counter() - began
    if output is not None:
        write_hits(output, hits)
    out.print(f"{hits!r}")
    out.print(_rate(len(columns), seconds))


@app.command(name="render")
def render_command(
    mesh: MeshOrTree,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture to write.")],
    shade: Annotated[str, typer.Option(help=f"One of: {', '.join(SHADES)}.")] = "normals",
    eye: Eye = None,
    target: Target = None,
    up: Up = "0,0,1",
    fov: Fov = 35.0,
    size: Size = "800x600",
    samples: Annotated[int, typer.Option(min=1, help="Rays along each side of a pixel.")] = 2,
    threads: Threads = None,
) -> None:
    """Render a picture of a mesh by casting rays."""
    check_picture_path(output)
    tree = _tree(mesh, threads)
    if tree.kind != "triangles":
        raise ValueError(f"{mesh} holds {tree.kind}; a picture needs triangles")
    camera = _camera(tree, eye, target, up, fov, size)
    tree.closest_hit(camera.eye, camera.forward)
    with _bar("rendering") as progress:
        picture = render(tree, camera, shade, samples=samples, threads=threads, progress=progress)
    picture.save(output)
    out.print(f"{output}: {camera.width} x {camera.height} pixels, {len(tree)} triangles")
    out.print(_rate(picture.rays, picture.seconds))


@app.command(name="warmup")
def warmup_command() -> None:
    """Compile all kernels now, so that the first query does not have to."""
    with _bar("compiling") as progress:
        began = time.perf_counter()
        warmup(lambda part, done, total: progress(done, total))
        seconds = time.perf_counter() - began
    where = cache_directory()
    out.print(f"kernels ready after {seconds:.1f} s, kept in {where or 'memory only'}")


@app.callback(invoke_without_command=True)
def _common(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"raybvh {bvh.__version__}")
        raise typer.Exit


@contextmanager
def _bar(text: str) -> Iterator[Any]:
    """Show a progress bar; yields a function (done, total)."""
    columns = (TextColumn(text), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task(text, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _build(mesh: Any, threads: int | None, quality: str = "medium") -> BVH:
    with _bar("building") as progress:
        return BVH.from_mesh(mesh, quality=quality, threads=threads, progress=progress)


def _tree(path: Path, threads: int | None) -> BVH:
    """Return the tree in a file, or that of the mesh in it."""
    if path.is_file() and is_saved_tree(path):
        loaded = load(path, mmap=True, threads=threads)
        assert isinstance(loaded, BVH)
        return loaded
    return _build(load_mesh(path), threads)


def _check_folder(output: Path) -> None:
    if not output.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {output.parent}")


def _camera(
    tree: BVH, eye: str | None, target: str | None, up: str, fov: float, size: str
) -> Camera:
    """Return the camera of the options, one that sees all of the mesh by default."""
    width, height = _pixels(size)
    if eye is None and target is None:
        if not np.isfinite(tree.bounds).all():
            raise ValueError("the mesh has nothing to look at; give --eye and --target")
        return Camera.framing(tree.bounds, up=_triple("--up", up), fov_y=fov,
                              width=width, height=height)  # fmt: skip
    if eye is None:
        raise ValueError("--target needs --eye, too")
    aim = _triple("--target", target) if target else tree.bounds.mean(axis=0)
    return Camera.look_at(_triple("--eye", eye), aim, _triple("--up", up), fov, width, height)


def _triple(name: str, text: str) -> NDArray[np.float64]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3:
        raise ValueError(f"{name} must be three numbers such as 1,2,3, got {text!r}")
    return np.array(numbers)


def _pixels(size: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in size.lower().split("x"))
    except ValueError:
        raise ValueError(f"--size must look like 800x600, got {size!r}") from None
    if max(width, height) > MAX_SIDE:
        raise ValueError(f"--size must be at most {MAX_SIDE}x{MAX_SIDE}, got {size!r}")
    return width, height


def _rate(rays: int, seconds: float) -> str:
    return f"{rays} rays in {seconds:.3f} s, {rays / max(seconds, 1e-9) / 1e6:.2f} million a second"


def _text(name: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{x:.9g}" for x in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "bytes":
        return f"{value / 2**20:.2f} MiB"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
