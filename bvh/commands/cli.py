"""The command line: info, stats, build, cast, render, plot, pick, view, lab, bench, warmup."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import bvh
from bvh.commands.bench_command import PASSED_ON, bench_command
from bvh.commands.camera_options import CameraFile, CameraOptions, Eye, Fov, Ortho, Size, Target, Up
from bvh.commands.console import (
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
from bvh.commands.contents import content_of
from bvh.commands.lab_command import lab_command
from bvh.commands.openings import AsJson, Flatten, Opened, ScenePath, Threads, check_folder, opened
from bvh.commands.pick_command import pick_command
from bvh.commands.plot_command import plot_command
from bvh.commands.render_command import render_command
from bvh.commands.view_command import view_command
from bvh.commands.warmup_command import warmup_command
from bvh.ray_files import HIT_ENDINGS, read_rays, write_hits
from bvh.scene import Scene
from bvh.scene_figures import scene_stats

app = typer.Typer(
    name="bvh",
    help="Cast rays at meshes and scenes: the exact nearest hit.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)

# Instances that `info` lists; JSON has them all.
LISTED = 20


def run() -> None:
    """Run the command; what goes wrong is told in one line, with exit code 2."""
    # Names may have letters that the terminal's encoding has not.
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
    scene: ScenePath,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Tell a mesh's size, and the cost, depth and memory of its tree; or what a scene holds."""
    held = opened(scene, threads)
    figures = _scene_figures(held) if isinstance(held.source, Scene) else _mesh_figures(held)
    figures = {"file": str(scene), **figures}
    if as_json:
        # Bounds of an empty mesh are NaN, which JSON does not know.
        print_json(figures)
        return
    listed = figures.pop("members", [])
    print_table([(name.replace("_", " "), _text(name, value)) for name, value in figures.items()])
    if listed:
        out.print()
        rows = [("instance", "triangles", "name")]
        for one in listed[:LISTED]:
            name = "-" if one["name"] is None else one_line(one["name"])
            rows.append((str(one["id"]), str(one["triangles"]), name))
        print_table(rows, right=True)
        if len(listed) > LISTED:
            out.print(f"and {len(listed) - LISTED} more")


@app.command()
def stats(
    scene: ScenePath,
    epo: Annotated[
        bool, typer.Option("--epo", help="Compute the effective partial overlap, too: slow.")
    ] = False,
    flatten: Flatten = False,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Tell the shape, cost and memory of a tree, or of a scene and each of its trees."""
    source = opened(scene, threads, flatten=flatten).source
    told = scene_stats(source, epo) if isinstance(source, Scene) else source.stats(epo=epo)
    if as_json:
        print_json(asdict(told))
    else:
        out.print(str(told))


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
    held = opened(scene, threads, quality, flatten)
    if held.read is None and not flatten:
        raise ValueError(f"{scene} has been built and saved before")
    held.source.save(output, threads=threads)
    out.print(f"{output}: {content_of(held.source)}, {mebibytes(output.stat().st_size)}")


@app.command()
def cast(
    scene: ScenePath,
    rays: Annotated[
        Path | None,
        typer.Option(help="Rays: .npy or .csv with columns ox oy oz dx dy dz [t_min t_max]."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Hits: .npz or .csv.")
    ] = None,
    camera: CameraFile = None,
    eye: Eye = None,
    target: Target = None,
    up: Up = None,
    fov: Fov = None,
    ortho: Ortho = None,
    size: Size = None,
    flatten: Flatten = False,
    threads: Threads = None,
) -> None:
    """Cast rays from a file, or a camera's, and write the nearest hits.

    Without --rays the rays are those of a camera, which frames everything unless the options say
    otherwise. Hits of a scene have an instance_id, and the leaf of a nested scene, too.
    """
    if output is not None and output.suffix not in HIT_ENDINGS:
        raise ValueError(f"--output must end in .npz or .csv, got {output}")
    if output is not None:
        check_folder(output)
    columns = read_rays(rays) if rays is not None else None
    source, read, above = opened(scene, threads, flatten=flatten)
    t_min, t_max = np.zeros(1), np.full(1, np.inf)
    if columns is None:
        options = CameraOptions(camera, eye, target, up, fov, ortho, size)
        view = options.made(scene, source.bounds, above, read)
        origins, directions = np.broadcast_arrays(*view.rays())
        columns = np.column_stack([origins.reshape(-1, 3), directions.reshape(-1, 3)])
        t_min, t_max = np.array([view.t_min]), np.array([view.t_max])
    elif columns.shape[1] == 8:
        t_min, t_max = columns[:, 6], columns[:, 7]
    # One ray first: compiling is not casting.
    source.closest_hit(columns[:1, :3], columns[:1, 3:6])
    with bar("casting") as progress:
        began = time.perf_counter()
        hits = source.closest_hit(
            columns[:, :3], columns[:, 3:6], t_min, t_max, threads=threads, progress=progress
        )
        seconds = time.perf_counter() - began
    if output is not None:
        write_hits(output, hits, source)
    out.print(f"{hits!r}")
    out.print(rate(len(columns), seconds))


app.command(name="render")(render_command)
app.command(name="plot")(plot_command)
app.command(name="pick")(pick_command)
app.command(name="view")(view_command)
app.command(name="lab")(lab_command)
app.command(name="bench", add_help_option=False, context_settings=PASSED_ON)(bench_command)
app.command(name="warmup")(warmup_command)


@app.callback(invoke_without_command=True)
def _common(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(f"raybvh {bvh.__version__}")
        raise typer.Exit


def _mesh_figures(held: Opened) -> dict[str, Any]:
    """Return what there is to say of a mesh and its tree."""
    tree: Any = held.source
    figures: dict[str, Any] = {}
    if tree.kind == "triangles":
        figures["vertices"] = len(tree.vertices)
    figures |= {tree.kind: len(tree), **_corners(tree.bounds)}
    if hasattr(held.read, "is_watertight"):
        figures["watertight"] = bool(held.read.is_watertight)
    return figures | {k: v for k, v in asdict(tree.stats()).items() if k != "primitives"}


def _scene_figures(held: Opened) -> dict[str, Any]:
    """Return what there is to say of a scene and its instances."""
    scene: Any = held.source
    told = scene_stats(scene)
    figures = {
        "instances": told.instances,
        "leaves": told.leaves,
        "trees": len(told.trees),
        "triangles": told.primitives,
        "stored_triangles": told.stored,
        **_corners(scene.bounds),
    }
    if held.read is not None:
        meshes = [held.read.geometry[name] for name in {*held.read.geometry}]
        figures["watertight"] = all(getattr(mesh, "is_watertight", True) for mesh in meshes)
    leaves = scene.leaves
    counts = np.array([tree.primitives for tree in told.trees])[leaves.tree_of]
    sums = np.bincount(leaves.instance_id, counts, minlength=int(scene.ids.max(initial=-1)) + 1)
    listed = [{"id": one.id, "name": one.name, "triangles": int(sums[one.id])} for one in scene]
    memory = {"bytes": told.bytes, "instance_bytes": told.instance_bytes}
    return figures | memory | {"members": listed}


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
