"""`bvh partition`, and what `bvh info` prints of parts."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from bvh.apps.cli.console import bar, mebibytes, numbers, out, print_table
from bvh.apps.cli.files import BuildQuality, Threads, content_of
from bvh.distributed.out_of_core.partitioning import partition
from bvh.distributed.out_of_core.parts import Parts


def partition_command(
    meshes: Annotated[list[Path], Argument(
        metavar="MESH...", help="Files of meshes; binary .ply and .stl may exceed the memory.")],
    output: Annotated[str, Option(
        "--output", "-o", help="Folder, new or empty, or a URL such as s3://...")],
    memory: Annotated[str, Option(help="Memory to stay within, from 50MB on.")] = "2GB",
    quality: BuildQuality = "medium", threads: Threads = None,
) -> None:  # fmt: skip
    """Cut meshes that are larger than memory into parts, for info, cast and render.

    Interrupted at any time, it leaves a folder that no command takes for parts, and that the next
    run uses again.
    """
    with bar("partitioning") as tell:
        parts = partition(
            meshes, output, memory=memory, quality=quality, threads=threads, progress=tell
        )
    out.print(f"{output}: {content_of(parts)}, {mebibytes(parts.nbytes)}")


def parts_figures(parts: Parts, details: bool) -> dict[str, object]:
    """Return what `bvh info` prints of parts; with details, also of each of them."""
    records = parts.records
    figures: dict[str, object] = {
        "triangles": len(parts), "parts": len(records), "lower": parts.bounds[0].tolist(),
        "upper": parts.bounds[1].tolist(),
        "smallest_part": min((part.triangles for part in records), default=0),
        "largest_part": max((part.triangles for part in records), default=0), "bytes": parts.nbytes,
        "sources": [asdict(source) for source in parts.sources],
    }  # fmt: skip
    if details:
        figures["part_records"] = [asdict(record) for record in records]
    return figures


def print_parts(parts: Parts) -> None:
    """Print the number of triangles, the size and the box of each part."""
    rows = [("part", "triangles", "size", "lower", "upper")]
    for number, part in enumerate(parts.records):
        box = part.bounds or [np.nan] * 6
        size = mebibytes(part.tree_bytes + part.ids_bytes)
        rows.append((str(number), str(part.triangles), size, numbers(box[:3]), numbers(box[3:])))
    print_table(rows, right=True)
