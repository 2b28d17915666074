"""`bvh partition`, and what other commands do with a folder of parts or on a cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from bvh.apps.cli.console import bar, mebibytes, numbers, out, print_json, print_table
from bvh.apps.cli.files import Threads
from bvh.distributed.out_of_core.partitioning import partition
from bvh.distributed.out_of_core.parts import Parts

Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Dask scheduler to cast on, such as tcp://host:8786."),
]

# Rays of a task.
CHUNK = 1 << 20


def partition_command(
    meshes: Annotated[
        list[Path],
        typer.Argument(
            metavar="MESH...", help="Files of meshes; binary .ply and .stl may exceed the memory."
        ),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Folder, new or empty, or a URL such as s3://..."),
    ],
    memory: Annotated[str, typer.Option(help="Memory to stay within.")] = "2GB",
    quality: Annotated[str, typer.Option(help="low, medium or high.")] = "medium",
    threads: Threads = None,
) -> None:
    """Cut meshes that are larger than memory into parts, for info, stats, cast and render."""
    with bar("partitioning") as progress:
        parts = partition(
            meshes, output, memory=memory, quality=quality, threads=threads, progress=progress
        )
    out.print(f"{output}: {len(parts)} triangles in {parts.part_count} parts, {size_of(parts)}")


def size_of(parts: Parts) -> str:
    """Return the bytes of the files of parts as text."""
    return mebibytes(parts.nbytes)


def parts_figures(parts: Parts) -> dict[str, Any]:
    """Return what `bvh info` prints of parts."""
    records = parts.records
    return {
        "triangles": len(parts),
        "parts": len(records),
        "sources": len(parts.sources),
        "lower": parts.bounds[0].tolist(),
        "upper": parts.bounds[1].tolist(),
        "smallest_part": min((part.triangles for part in records), default=0),
        "largest_part": max((part.triangles for part in records), default=0),
        "bytes": parts.nbytes,
    }


def print_parts(parts: Parts, as_json: bool) -> None:
    """Print the number of triangles, the size and the box of each part."""
    rows = [
        {"part": number, "triangles": part.triangles,
         "bytes": part.tree_bytes + part.ids_bytes, "bounds": part.bounds}
        for number, part in enumerate(parts.records)
    ]  # fmt: skip
    if as_json:
        print_json({"parts": rows})
        return
    lines = [("part", "triangles", "size", "lower", "upper")]
    for row in rows:
        box = row["bounds"] or [np.nan] * 6
        corners = numbers(box[:3]), numbers(box[3:])
        lines.append((str(row["part"]), str(row["triangles"]), mebibytes(row["bytes"]), *corners))
    print_table(lines, right=True)


def cast_on(
    address: str, source: Any, origins: Any, directions: Any, t_min: Any, t_max: Any
) -> tuple[Any, float]:
    """Cast rays on a cluster; return the hits, and the seconds that it took.

    Raises
    ------
    ImportError
        If distributed is not installed.
    OSError
        If there is no scheduler at the address.
    """
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise ImportError('--scheduler needs distributed: pip install "raybvh[dask]"') from None
    bounds = (chunked(bound) if len(bound) == len(origins) else bound for bound in (t_min, t_max))
    with Client(address, timeout="10s"):
        began = time.perf_counter()
        (hits,) = dask.compute(source.closest_hit(chunked(origins), chunked(directions), *bounds))
        return hits, time.perf_counter() - began


def chunked(columns: NDArray[np.float64]) -> Any:
    """Return columns as a Dask array of chunks that a task takes."""
    import dask.array as da

    return da.from_array(columns, chunks=(CHUNK, *columns.shape[1:]))
