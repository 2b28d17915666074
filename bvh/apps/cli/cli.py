"""The command line: info, stats, build, partition, cast, render, plot, pick, view, lab, ..."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import bvh
from bvh.apps.cli.camera_options import NO_CAMERA, OF_PICTURES, CameraOptions, with_camera
from bvh.apps.cli.compiling import warmup_command
from bvh.apps.cli.console import (
    bar,
    err,
    mebibytes,
    numbers,
    one_line,
    out,
    print_json,
    print_table,
    rate,
    warnings_in_a_line,
)
from bvh.apps.cli.files import (
    HIT_ENDINGS,
    AsJson,
    Flatten,
    Opened,
    PartsPath,
    ScenePath,
    Threads,
    check_folder,
    content_of,
    opened,
    read_rays,
    write_hits,
)
from bvh.apps.cli.parts_commands import (
    Scheduler,
    cast_on,
    partition_command,
    parts_figures,
    print_parts,
)
from bvh.apps.cli.pick_command import pick_command
from bvh.apps.cli.show_commands import lab_command, plot_command, render_command, view_command
from bvh.distributed.out_of_core.parts import Parts
from bvh.scene.scene import Scene
from bvh.scene.stats import scene_stats

app = typer.Typer(
    name="bvh",
    help="Cast rays at meshes and scenes: the exact nearest hit.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

# Instances that `info` lists without --json.
LISTED = 20


def run() -> None:
    """Run the command; an error is printed in one line, with exit code 2."""
    # Names may have characters that the terminal cannot encode.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings_in_a_line():
            app()
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        err.print(f"bvh: {one_line(text)}")
        sys.exit(2)


@app.command()
def info(
    scene: PartsPath,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Print the size of a mesh and the cost, depth and memory of its tree; or a scene's content."""
    file = opened(scene, threads)
    if isinstance(file.source, Parts):
        figures = parts_figures(file.source)
    else:
        figures = _scene_figures(file) if isinstance(file.source, Scene) else _mesh_figures(file)
    figures = {"file": str(scene), **figures}
    if as_json:
        print_json(figures)
        return
    listed = figures.pop("members", [])
    print_table([(name.replace("_", " "), _text(name, value)) for name, value in figures.items()])
    if listed:
        out.print()
        rows = [("instance", "triangles", "name")]
        for member in listed[:LISTED]:
            name = "-" if member["name"] is None else one_line(member["name"])
            rows.append((str(member["id"]), str(member["triangles"]), name))
        print_table(rows, right=True)
        if len(listed) > LISTED:
            out.print(f"and {len(listed) - LISTED} more")


@app.command()
def stats(
    scene: PartsPath,
    epo: Annotated[
        bool, typer.Option("--epo", help="Also compute the effective partial overlap: slow.")
    ] = False,
    flatten: Flatten = False,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Print the shape, cost and memory of a tree, or of a scene and each of its trees."""
    source = opened(scene, threads, flatten=flatten).source
    if isinstance(source, Parts):
        print_parts(source, as_json)
        return
    found = scene_stats(source, epo) if isinstance(source, Scene) else source.stats(epo=epo)
    if as_json:
        print_json(asdict(found))
    else:
        out.print(str(found))


@app.command()
def build(
    scene: ScenePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write to.")],
    quality: Annotated[str, typer.Option(help="low, medium or high.")] = "medium",
    flatten: Flatten = False,
    threads: Threads = None,
) -> None:
    """Build the tree of a mesh, or the trees of a scene, and save them for the other commands."""
    check_folder(output)
    source, read, _ = opened(scene, threads, quality, flatten)
    if read is None and not flatten:
        raise ValueError(f"{scene} has been built and saved before")
    source.save(output, threads=threads)
    out.print(f"{output}: {content_of(source)}, {mebibytes(output.stat().st_size)}")


@app.command()
@with_camera(*OF_PICTURES)
def cast(
    scene: PartsPath,
    rays: Annotated[
        Path | None,
        typer.Option(help="Rays: .npy or .csv with columns ox oy oz dx dy dz [t_min t_max]."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Hits: .npz or .csv.")
    ] = None,
    camera: CameraOptions = NO_CAMERA,
    flatten: Flatten = False,
    threads: Threads = None,
    scheduler: Scheduler = None,
) -> None:
    """Cast rays from a file or of a camera, and write the closest hits.

    Without --rays the rays are those of a camera, which by default sees everything. Hits of a scene
    also have an instance_id, and the leaf of a nested scene.
    """
    if output is not None:
        if output.suffix not in HIT_ENDINGS:
            raise ValueError(f"--output must end in .npz or .csv, got {output}")
        check_folder(output)
    columns = read_rays(rays) if rays is not None else None
    source, read, up = opened(scene, threads, flatten=flatten)
    t_min, t_max = np.zeros(1), np.full(1, np.inf)
    if columns is None:
        view = camera.camera_of(scene, source.bounds, up, read)
        origins, directions = np.broadcast_arrays(*view.rays())
        columns = np.column_stack([origins.reshape(-1, 3), directions.reshape(-1, 3)])
        t_min, t_max = np.array([view.t_min]), np.array([view.t_max])
    elif columns.shape[1] == 8:
        t_min, t_max = columns[:, 6], columns[:, 7]
    rays = columns[:, :3], columns[:, 3:6], t_min, t_max
    if scheduler is not None:
        hits, seconds = cast_on(scheduler, source, *rays)
    else:
        # One ray first, so that compiling is not timed.
        source.closest_hit(columns[:1, :3], columns[:1, 3:6])
        with bar("casting") as progress:
            began = time.perf_counter()
            hits = source.closest_hit(*rays, threads=threads, progress=progress)
            seconds = time.perf_counter() - began
    if output is not None:
        write_hits(output, hits, source)
    out.print(f"{hits!r}")
    out.print(rate(len(columns), seconds))


app.command(name="partition")(partition_command)
app.command(name="render")(render_command)
app.command(name="plot")(plot_command)
app.command(name="pick")(pick_command)
app.command(name="view")(view_command)
app.command(name="lab")(lab_command)


# The benchmarks parse their own options, because they also run where typer is not installed.
@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: typer.Context) -> None:
    """Measure bvh on this machine, beside the peers that are installed.

    `bvh bench --help` lists the tasks and the options.
    """
    raise typer.Exit(_benchmarks().run(context.args, "bvh bench"))


app.command(name="warmup")(warmup_command)


@app.callback(invoke_without_command=True)
def _common(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"raybvh {bvh.__version__}")
        raise typer.Exit


def _mesh_figures(file: Opened) -> dict[str, Any]:
    """Return the figures of a mesh and its tree."""
    tree: Any = file.source
    figures: dict[str, Any] = {}
    if tree.kind == "triangles":
        figures["vertices"] = len(tree.vertices)
    figures |= {tree.kind: len(tree), **_corners(tree.bounds)}
    if hasattr(file.read, "is_watertight"):
        figures["watertight"] = bool(file.read.is_watertight)
    return figures | {k: v for k, v in asdict(tree.stats()).items() if k != "primitives"}


def _scene_figures(file: Opened) -> dict[str, Any]:
    """Return the figures of a scene and its instances."""
    scene: Any = file.source
    found = scene_stats(scene)
    figures = {
        "instances": found.instances,
        "leaves": found.leaves,
        "trees": len(found.trees),
        "triangles": found.primitives,
        "stored_triangles": found.stored,
        **_corners(scene.bounds),
    }
    if file.read is not None:
        meshes = [file.read.geometry[name] for name in {*file.read.geometry}]
        figures["watertight"] = all(getattr(mesh, "is_watertight", True) for mesh in meshes)
    leaves = scene.leaves
    counts = np.array([tree.primitives for tree in found.trees])[leaves.tree_of]
    sums = np.bincount(leaves.instance_id, counts, minlength=int(scene.ids.max(initial=-1)) + 1)
    members = [
        {"id": each.id, "name": each.name, "triangles": int(sums[each.id])} for each in scene
    ]
    memory = {"bytes": found.bytes, "instance_bytes": found.instance_bytes}
    return figures | memory | {"members": members}


def _corners(bounds: Any) -> dict[str, Any]:
    return {"lower": bounds[0].tolist(), "upper": bounds[1].tolist()}


def _text(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return numbers(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("bytes"):
        return mebibytes(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return one_line(str(value))


def _benchmarks() -> Any:
    """Return the module that runs the benchmarks: installed, or beside the package in a clone."""
    if find_spec("bvh.benchmarks") is not None:
        return import_module("bvh.benchmarks.session")
    folder = Path(bvh.__file__).resolve().parents[1] / "benchmarks"
    found = find_spec("benchmarks")
    # Another package may have the same name.
    if found is None or not found.origin or Path(found.origin).resolve().parent != folder:
        raise ImportError(f"the benchmarks are not installed; there is no importable {folder}")
    return import_module("benchmarks.session")
