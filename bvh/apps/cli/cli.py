"""The command line: info, build, partition, cast, render, view, demo, lab, ..."""

import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
from numpy.typing import ArrayLike
from typer import Argument, Context, Exit, Option, Typer

import bvh
from bvh.apps.bundled import bundled
from bvh.apps.cli import console, files
from bvh.apps.cli.camera_options import Eye, Fov, Ortho, Size, Target, Up, camera_of
from bvh.apps.cli.check_command import check_command
from bvh.apps.cli.compiling import warmup_command
from bvh.apps.cli.show_commands import demo_command, lab_command, render_command, view_command
from bvh.distributed.out_of_core.partitioning import partition
from bvh.distributed.out_of_core.parts import Parts
from bvh.io.meshes import Surface
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import grouped
from bvh.runtime.jit import notice
from bvh.scene.scene import Scene

app = Typer(
    name="bvh", help="Cast rays at meshes and scenes: the exact nearest hit.", no_args_is_help=True,
    add_completion=True, pretty_exceptions_enable=False, rich_markup_mode="markdown",
)  # fmt: skip

# Instances, or sources of parts, that `info` lists without --json.
LISTED = 20

# Arguments of two examples of each command.
EXAMPLES = {
    "info": ("scan.ply", "city.glb --details"),
    "build": ("scan.ply -o scan.bvh", "city.glb -o city.bvh --quality high"),
    "partition": ("scan.ply -o parts --memory 4GB", "a.stl b.stl -o s3://bucket/parts"),
    "cast": ("scan.ply --rays rays.npy -o hits.npz", "scan.ply --size 1920x1080"),
    "check": ("assembly.glb", "assembly.glb --margin 1e-5 --allow-touching --json"),
    "render": ("scan.ply -o scan.png --shade clay", "city.glb -o depth.npy --shade depth"),
    "view": ("scan.ply", "city.glb --html city.html"),
    "demo": ("", "--port 8081 --no-open"),
    "lab": ("", "--port 8091 --no-open"),
    "warmup": ("", "--cpu x86-64-v3,x86-64-v4"),
}
# Short names of types, so that the texts have room.
NAMES = {bool: " ", int: "N", float: "X", Path: "FILE", str: "TEXT"}


def run() -> None:
    """Run the command line; an error prints one line and exits with 2, in `bvh check` with 3."""
    # Names may contain characters that the terminal cannot encode.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with console.warnings_in_a_line():
            app()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does. Discard what Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        console.err.print(f"bvh: {console.one_line(text)}")
        sys.exit(3 if sys.argv[1:2] == ["check"] else 2)


@app.command()
def info(
    scene: files.PartsPath,
    details: Annotated[bool, Option(
        "--details", help="Also list the trees of a scene, or in JSON the parts.")] = False,
    flatten: files.Flatten = False, threads: files.Threads = None, as_json: files.AsJson = False,
) -> None:  # fmt: skip
    """Print size, cost and memory: of a mesh and its tree, of a scene, or of parts."""
    source, read, _ = files.opened_parts(scene, threads, flatten)
    # `figures` are printed and in JSON, `more` only in JSON, and `text` is only printed.
    if isinstance(source, Parts):
        figures, more, text = _parts_figures(source, details)
    elif isinstance(source, Scene):
        figures, more, text = _scene_figures(source, read, details)
    else:
        figures, more, text = _mesh_figures(source, read)
    if as_json:
        console.print_json({"file": scene} | figures | more)
        return
    for name, value in ({"file": scene} | figures).items():
        console.out.print(f"{name.replace('_', ' '):<16}{_text(value)}")
    console.out.print(text)
    _print_list("instance", "id", more.get("members", []))
    _print_list("first id", "first", more.get("sources", []))


@app.command()
def build(
    scene: files.ScenePath,
    output: Annotated[Path, Option("--output", "-o", help="File to write to.")],
    quality: files.BuildQuality = "medium", flatten: files.Flatten = False,
    threads: files.Threads = None,
) -> None:  # fmt: skip
    """Build the tree of a mesh, or the trees of a scene, and save them for the other commands."""
    files.check_folder(output)
    if output.exists() and scene.exists() and output.samefile(scene):
        raise ValueError(f"{output} is the file to read: give another name to --output")
    source, read, _ = files.opened(scene, threads, quality, flatten)
    if read is None and not flatten:  # A saved tree or scene was loaded.
        raise ValueError(f"{scene} has been built and saved before")
    source.save(output, threads=threads)
    size = console.mebibytes(output.stat().st_size)
    console.out.print(f"{output}: {files.content_of(source)}, {size}")


@app.command(name="partition")
def partition_command(
    meshes: Annotated[list[Path], Argument(
        metavar="MESH...", help="Files of meshes; binary .ply and .stl may exceed the memory.")],
    output: Annotated[str, Option(
        "--output", "-o", help="Folder, new or empty, or a URL such as s3://...")],
    memory: Annotated[str, Option(help="Memory to stay within, from 50MB on.")] = "2GB",
    quality: files.BuildQuality = "medium", threads: files.Threads = None,
) -> None:  # fmt: skip
    """Cut meshes that are larger than memory into parts, for info, cast and render.

    If killed, it leaves an incomplete folder, which other commands refuse; remove its files.
    """
    with console.bar("partitioning") as progress:
        parts = partition(
            meshes, output, memory=memory, quality=quality, threads=threads, progress=progress
        )
    console.out.print(f"{output}: {files.content_of(parts)}, {console.mebibytes(parts.nbytes)}")


@app.command()
def cast(
    scene: files.PartsPath,
    *,
    rays: Annotated[Path | None, Option(
        help="Rays: a .npy file, or text with commas or spaces, with columns ox oy oz dx dy dz "
        "[t_min t_max]; - reads standard input.")] = None,
    output: Annotated[Path | None, Option(
        "--output", "-o", help="Hits: .npz or .csv; - writes CSV to standard output.")] = None,
    eye: Eye = None, target: Target = None, up: Up = None, fov: Fov = None, ortho: Ortho = None,
    size: Size = None, flatten: files.Flatten = False, threads: files.Threads = None,
    memory: files.Memory = None,
) -> None:  # fmt: skip
    """Cast rays from a file or of a camera, and write the closest hits.

    Without --rays the rays are those of a camera, which by default sees everything. Hits of a scene
    also have an instance_id, and the leaf of a nested scene.

    `bvh cast mesh.ply --rays - -o -` is for pipes: only hits go to standard output, messages to
    standard error.
    """
    if output is not None and not files.is_pipe(output):
        if output.suffix not in (".npz", ".csv"):
            raise ValueError(f"--output must end in .npz or .csv, or be -, got {output}")
        files.check_folder(output)
    if files.is_pipe(output) and sys.stdout is None:
        raise ValueError("--output - writes to standard output, which is closed")
    columns = None if rays is None else files.read_rays(rays)
    source, _, axis = files.opened_parts(scene, threads, flatten, memory)
    if columns is None:
        camera = camera_of(
            source, axis, eye=eye, target=target, up=up, fov=fov, ortho=ortho, size=size
        )
        origins, directions = (array.reshape(-1, 3) for array in camera.rays())
        limits: tuple[ArrayLike, ...] = (camera.t_min, camera.t_max)
    else:
        # The limits are t_min and t_max, if there are 8 columns.
        origins, directions, limits = columns[:, :3], columns[:, 3:6], tuple(columns[:, 6:].T)
    with console.bar("casting") as progress:
        began = notice.clock()
        hits = source.closest_hit(origins, directions, *limits, threads=threads, progress=progress)
        seconds = notice.clock() - began
    if output is not None:
        files.write_hits(output, hits, source)
    terminal = console.err if files.is_pipe(output) else console.out
    terminal.print(f"{hits!r}")
    speed = len(hits) / max(seconds, 1e-9) / 1e6
    terminal.print(f"{console.rays_in(len(hits), seconds)}, {speed:.2f} million a second")


for command in (check_command, render_command, view_command, demo_command, lab_command):
    app.command(name=command.__name__.removesuffix("_command"))(command)


# The benchmarks parse their own options, because they also run where typer is not installed.
@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(context: Context) -> None:
    """Measure bvh and installed peers on this machine.

    `bvh bench --help` lists the tasks and the options.
    """
    raise Exit(bundled("benchmarks.session").run(context.args, "bvh bench"))


def _complete_help() -> None:
    """Add EXAMPLES to the help of all commands, and NAMES of types to their options."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        lines = EXAMPLES.get(name, ())
        if lines:
            shown = (f"- `{f'bvh {name} {line}'.strip()}`" for line in lines)
            command.epilog = "\n\n".join(["Examples:", *shown])
        # The annotation of a parameter is Annotated[type, Option(...)].
        for parameter in inspect.signature(command.callback).parameters.values():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                kind = get_args(parameter.annotation)[0]
                if option.metavar is None:
                    # The type, and the members of a union such as int | None.
                    kinds = {kind, *get_args(kind)}
                    option.metavar = next((NAMES[k] for k in NAMES if k in kinds), "NAME")


app.command(name="warmup")(warmup_command)
_complete_help()


@app.callback(invoke_without_command=True)
def _main(version: Annotated[bool, Option("--version", help="Print the version.")] = False) -> None:
    # Typer calls this before any command. A docstring would be the help of `bvh`.
    if version:
        console.out.print(f"raybvh {bvh.__version__}")
        raise Exit


# What `info` shows: figures to print and for JSON, figures for JSON alone, and a text to print.
Figures = tuple[dict[str, Any], dict[str, Any], str]


def _mesh_figures(tree: BVH, read: object) -> Figures:
    """Return what `info` shows of a tree: printed figures, figures for JSON alone, and a text.

    `read` is the mesh that the tree was built from, None for a saved tree.
    """
    # Trees over shapes such as boxes have no vertices.
    figures: dict[str, Any] = {"vertices": len(tree.vertices)} if hasattr(tree, "vertices") else {}
    lower, upper = tree.bounds.tolist()
    figures |= {tree.kind: len(tree), "lower": lower, "upper": upper}
    if isinstance(read, Surface):
        import trimesh

        read = trimesh.Trimesh(read.vertices, read.faces, process=False)
    if hasattr(read, "is_watertight"):
        figures["watertight"] = bool(read.is_watertight)
    figures |= _surface_figures([tree])
    stats = tree.stats()
    more = {name: value for name, value in asdict(stats).items() if name != "primitives"}
    return figures, more, str(stats)


def _scene_figures(scene: Scene, read: Any, details: bool) -> Figures:
    """Return what `info` shows of a scene: printed figures, figures for JSON alone, and a text.

    `read` is the trimesh scene that was read, None for a saved one. `details` adds each tree.
    """
    stats, (lower, upper) = scene.stats(), scene.bounds.tolist()
    figures: dict[str, Any] = {"triangles": stats.primitives, "lower": lower, "upper": upper}
    if read is not None:
        meshes = read.geometry.values()
        figures["watertight"] = all(getattr(mesh, "is_watertight", True) for mesh in meshes)
    leaves = scene.leaves
    figures |= _surface_figures(leaves.trees)
    # The primitives of each leaf, and their sums over the leaves of an instance, by its id.
    counts = np.array([tree.primitives for tree in stats.trees])[leaves.tree_of]
    sums = np.bincount(leaves.instance_id, counts, minlength=int(scene.ids.max(initial=-1)) + 1)
    more = {
        "instances": stats.instances, "levels": stats.levels, "leaves": stats.leaves,
        "hidden": stats.hidden, "trees": len(stats.trees), "shown_triangles": stats.shown,
        "stored_triangles": stats.stored, "depth": stats.depth, "bytes": stats.bytes,
        "instance_bytes": stats.instance_bytes,
        "members": [{"id": i.id, "name": i.name, "triangles": int(sums[i.id])} for i in scene],
    }  # fmt: skip
    if details:
        pairs = zip(stats.placed, stats.trees, strict=True)
        more["tree_stats"] = [{"placed": placed, **asdict(tree)} for placed, tree in pairs]
        return figures, more, str(stats)
    # The lines about trees come last.
    lines = str(stats).splitlines()
    return figures, more, "\n".join(lines[: len(lines) - len(stats.tree_lines())])


def _surface_figures(trees: Sequence[BVH]) -> dict[str, Any]:
    """Return whether all meshes are closed, and oriented, and how many open edges they have.

    Trees over other shapes do not count; {} if there are no others.
    """
    trees = [tree for tree in trees if tree.kind == "triangles"]
    if not trees:
        return {}
    count = sum(0 if tree.is_closed else len(tree.open_edges()) for tree in trees)
    oriented = all(tree.is_oriented for tree in trees)
    return {"closed": count == 0, "open_edges": count, "oriented": oriented}


def _parts_figures(parts: Parts, details: bool) -> Figures:
    """Return what `info` shows of parts, as `_mesh_figures` does; `details` adds each record."""
    sizes, (lower, upper) = [part.triangles for part in parts.records], parts.bounds.tolist()
    figures = {
        "triangles": len(parts), "parts": len(sizes), "lower": lower, "upper": upper,
        "smallest_part": min(sizes, default=0), "largest_part": max(sizes, default=0),
    }  # fmt: skip
    more: dict[str, Any] = {"bytes": parts.nbytes, "sources": list(map(asdict, parts.sources))}
    if details:
        more["part_records"] = list(map(asdict, parts.records))
    return figures, more, f"{'memory':<16}{console.mebibytes(parts.nbytes)}"


def _print_list(title: str, key: str, listed: list[dict[str, Any]]) -> None:
    """Print a table of records of instances or sources, at most LISTED of them.

    `title` heads the first column, which has the values of `key`.
    """
    if not listed:
        return
    console.out.print()
    rows = [(title, "triangles", "name")]
    for each in listed[:LISTED]:
        size = grouped(each["triangles"])
        rows.append((str(each[key]), size, console.one_line(each["name"])))
    width, width2, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    for first, size, name in rows:
        console.out.print(f"{first:>{width}}  {size:>{width2}}  {name}".rstrip())
    if len(listed) > LISTED:
        console.out.print(f"and {len(listed) - LISTED} more")


def _text(value: object) -> str:
    """Return a figure as text for people: lists with commas, yes or no, digits in groups."""
    if isinstance(value, list):
        return ", ".join(f"{number:.9g}" for number in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return grouped(value) if isinstance(value, int) else console.one_line(str(value))
