"""`bvh plot`: a chart of how a tree is put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bvh.commands.console import out
from bvh.commands.contents import content_of
from bvh.commands.openings import Flatten, ScenePath, Threads, opened
from bvh.pictures.charts import chart, check_chart_path, write_chart
from bvh.scene import Scene


def plot_command(
    scene: ScenePath,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Chart to write: .png, .svg or .pdf.")
    ],
    tree: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of a scene: which of its trees; by default that of the most primitives."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Above the chart.")] = None,
    flatten: Flatten = False,
    threads: Threads = None,
) -> None:
    """Plot what a tree costs and how it is filled, level by level."""
    check_chart_path(output)
    source = opened(scene, threads, flatten=flatten).source
    named = scene.name
    if isinstance(source, Scene):
        trees = source.leaves.trees
        if not trees:
            raise ValueError(f"{scene} holds no trees")
        largest = max(range(len(trees)), key=lambda k: len(trees[k]))
        number = largest if tree is None else tree
        if number >= len(trees):
            raise ValueError(f"--tree must be below {len(trees)}, got {number}")
        source, named = trees[number], f"{scene.name}, tree {number} of {len(trees)}"
    elif tree is not None:
        raise ValueError(f"--tree goes with a scene, and {scene} is a single tree")
    write_chart(chart(source, title or named), output)
    out.print(f"{output}: {named}, {content_of(source)}")
