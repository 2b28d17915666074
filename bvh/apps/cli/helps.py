"""Help of commands: examples, and short names of types."""

import inspect
from pathlib import Path
from typing import get_args

from typer import Typer

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


def explain(app: Typer) -> None:
    """Give the commands of an app their examples, and their options short types."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        lines = EXAMPLES.get(name, ())
        if lines:
            shown = (f"- `{f'bvh {name} {line}'.strip()}`" for line in lines)
            command.epilog = "\n\n".join(["Examples:", *shown])
        for parameter in inspect.signature(command.callback).parameters.values():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                kind = get_args(parameter.annotation)[0]
                if option.metavar is None:
                    kinds = {kind, *get_args(kind)}
                    option.metavar = next((NAMES[k] for k in NAMES if k in kinds), "NAME")
