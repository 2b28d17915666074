"""`bvh check`: pairs of instances that touch or overlap, for people and for scripts."""

from typing import Annotated

import numpy as np
from typer import Exit, Option

from bvh.apps.cli import console, files

Ignored = Annotated[list[str] | None, Option(
    metavar="A,B", help="Two instances that may overlap, by id or name; repeatable.")]  # fmt: skip


def check_command(
    scene: files.ScenePath,
    margin: Annotated[float, Option(
        help="Solids that are apart by at most this distance touch.")] = 0.0,
    allow_touching: Annotated[bool, Option(
        "--allow-touching", help="Solids may touch.")] = False,
    max_volume: Annotated[float, Option(
        help="Overlaps of at most this volume count as touching.")] = 0.0,
    ignore: Ignored = None, threads: files.Threads = None, as_json: files.AsJson = False,
) -> None:  # fmt: skip
    """List the pairs of instances of a scene that touch or overlap.

    Ends with exit code 0 if there are none, 1 if solids touch and that is not allowed, 2 if solids
    overlap, or may because one is not a closed mesh, and 3 if the scene cannot be checked.
    """
    pairs = [_pair_of(text) for text in ignore or ()]
    if not max_volume >= 0.0:  # Not <, so that NaN is rejected, too.
        raise ValueError(f"--max-volume must be at least 0, got {max_volume}")
    opened = files.opened_scene(scene, threads)
    with console.bar("checking") as progress:
        found = opened.interferences(
            ignore=pairs, margin=margin, threads=threads, progress=progress
        )
    # Unknown relations, and volumes that are not known (NaN, which is not <=), count as overlaps.
    touching = found.relation == "touching"
    if max_volume > 0.0:
        touching |= found.volume <= max_volume
    code = 0
    if not touching.all():
        code = 2
    elif len(found) and not allow_touching:
        code = 1
    if as_json:
        console.print_json({
            "file": str(scene), "instances": len(opened), "margin": margin, "exit_code": code,
            "touching": int(np.count_nonzero(touching)),
            "overlapping": int(np.count_nonzero(~touching)), "pairs": found.records(),
        })  # fmt: skip
    else:
        if len(found):
            console.out.print(str(found))
        console.out.print(f"{scene}: {files.content_of(opened)}: {found!r}")
    raise Exit(code)


def _pair_of(text: str) -> tuple[int | str, int | str]:
    """Return the two instances in a value of --ignore, such as "3,wheel": ids or names."""
    ends = [end.strip() for end in text.split(",")]
    if len(ends) != 2:
        raise ValueError(f"--ignore takes two ids or names with a comma between, got {text!r}")
    first, second = (int(end) if end.isdecimal() else end for end in ends)
    return first, second
