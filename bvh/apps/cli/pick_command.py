"""`bvh pick`: picks under a cursor, and selections in a rectangle of the picture."""

import math
from typing import Annotated, Any

from typer import Exit, Option

from bvh.apps.cli.camera_options import NO_CAMERA, CameraOptions, numbers_of, with_camera
from bvh.apps.cli.console import numbers, one_line, out, print_json, print_table
from bvh.apps.cli.files import AsJson, ScenePath, Threads, opened_scene
from bvh.picking.region import KINDS, MODES, RegionMode, Selected
from bvh.picking.results import Pick, Selection
from bvh.runtime.arguments import number_of
from bvh.scene.scene import Scene


@with_camera(*CameraOptions._fields)
def pick_command(
    scene: ScenePath,
    *,
    at: Annotated[str | None, Option(metavar="X,Y", help="Cursor: print what is under it.")] = None,
    rect: Annotated[str | None, Option(
        metavar="X0,Y0,X1,Y1", help="Rectangle: print what is in it.")] = None,
    radius: Annotated[float | None, Option(
        metavar="PIXELS", help="With --at: also faces within this many pixels.")] = None,
    everything: Annotated[bool, Option(
        "--all", help="With --at: all hits of its ray, front to back.")] = False,
    what: Annotated[Selected | None, Option(
        parser=str, help=f"With --rect: {', '.join(KINDS)}; faces by default.")] = None,
    mode: Annotated[RegionMode | None, Option(
        parser=str, help=f"With --rect: {' or '.join(MODES)}; touching by default.")] = None,
    visible_only: Annotated[bool, Option(
        "--visible-only", help="With --rect: only what the camera sees.")] = False,
    camera: CameraOptions = NO_CAMERA, threads: Threads = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Print what is under a cursor (--at), or in a rectangle of the picture (--rect).

    The picture is that of `bvh render` with the same options. Pixels are counted from its upper
    left corner, and the middle of the first one is at 0.5,0.5.

    The exit code is 0 if something is found, 1 if nothing is, 2 for an error. Without a result
    "nothing" is printed, or with --json null or an empty list.
    """
    _check(at, rect, radius, everything, what, mode, visible_only)
    cursor = numbers_of("--at", at, 2, "400,300") if at is not None else []
    if not all(map(math.isfinite, cursor)):
        raise ValueError(f"--at must be finite, got {at!r}")
    corners = numbers_of("--rect", rect, 4, "10,10,90,60") if rect is not None else []
    source, read = opened_scene(scene, threads)
    view = camera.camera_of(scene, source, source.up, read)
    selection: Selection | None = None
    picks: list[Pick] = []
    if corners:
        selection = source.pick_rect(
            view, *corners, what=what or "faces", mode=mode or "touching",
            visible_only=visible_only, threads=threads,
        )  # fmt: skip
    elif everything:
        picks = source.pick_all(view, cursor[0], cursor[1])
    else:
        pick = source.pick(view, cursor[0], cursor[1], radius or 0.0)
        picks = [] if pick is None else [pick]
    count = len(picks) if selection is None else len(selection)
    if as_json and selection is not None:
        print_json(_selected(source, selection))
    elif as_json:
        values = [pick.as_dict() for pick in picks]
        print_json(values if everything else next(iter(values), None))
    elif not count:
        out.print("nothing")
    elif selection is not None:
        _print_selection(source, selection)
    elif everything:
        print_table(_list(picks), right=True)
    else:
        print_table(_rows(picks[0], len(source.leaves.tree_of) == 1))
    if not count:
        # Like grep.
        raise Exit(1)


def _check(
    at: str | None, rect: str | None, radius: float | None, everything: bool, what: str | None,
    mode: str | None, visible_only: bool,
) -> None:  # fmt: skip
    """Refuse options that do not go together, before a file is read."""
    if (at is None) == (rect is None):
        raise ValueError("give either --at or --rect")
    of_cursor = {"--radius": radius is not None, "--all": everything}
    of_rectangle = {"--what": what, "--mode": mode, "--visible-only": visible_only}
    other, needed = (of_cursor, "--at") if at is None else (of_rectangle, "--rect")
    for name, given in other.items():
        if given:
            raise ValueError(f"{name} goes with {needed}")
    if everything and radius is not None:
        raise ValueError("--all has no --radius: it prints the hits of the cursor's own ray")


def _path(path: tuple[int, ...]) -> str:
    return "/".join(map(str, path))


def _rows(pick: Pick, alone: bool) -> list[tuple[str, str]]:
    """Return the rows of a pick's table; without where in the scene if the mesh is alone there."""
    values = pick.as_dict()
    on_face = values["vertex"] is not None
    rows = [
        ("instance", str(pick.instance_id)),
        ("name", one_line(pick.name)),
        ("path", _path(pick.path)),
        ("leaf", str(pick.leaf)),
        ("primitive", str(pick.prim_id)),
        ("face", "" if pick.face_id == pick.prim_id else str(pick.face_id)),
        ("side", "front" if pick.front else "back"),
        ("u, v", numbers([pick.u, pick.v]) if on_face else ""),
        ("t", f"{pick.t:.9g}"),
        ("position", numbers(pick.position)),
        ("local position", numbers(pick.local_position)),
        ("normal", numbers(pick.normal)),
        ("smooth normal", numbers(values["smooth_normal"] or [])),
        ("uv", numbers(values["uv"] or [])),
    ]
    for name in ("vertex", "edge"):
        near = values[name]
        if near is not None:
            ids = near["id"] if name == "vertex" else "-".join(map(str, near["vertices"]))
            away = number_of(near["distance"], "pixels", ".3g")
            rows.append((name, f"{ids} at {numbers(near['position'])}, {away} away"))
    if pick.screen_distance:
        rows.append(("beside", f"the cursor by {number_of(pick.screen_distance, 'pixels', '.3g')}"))
    of_scene = ("instance", "path", "leaf", "local position") if alone else ()
    return [row for row in rows if row[1] and row[0] not in of_scene]


def _list(picks: list[Pick]) -> list[tuple[str, str, str, str, str]]:
    """Return a row for each pick, below a row of titles."""
    rows = [("t", "instance", "primitive", "side", "name")]
    for hit in picks:
        side = "front" if hit.front else "back"
        rows.append((f"{hit.t:.9g}", _path(hit.path), str(hit.prim_id), side, one_line(hit.name)))
    return rows


def _selected(scene: Scene, found: Selection) -> dict[str, Any]:
    """Return a selection as plain values."""
    rows = []
    for k, leaf in enumerate(found.leaf.tolist()):
        row: dict[str, Any] = {"instance_id": int(found.instance_id[k]), "name": found.names[k]}
        if found.what != "instances":
            row |= {"path": scene.path(leaf), "leaf": leaf, "ids": found[k].tolist()}
        rows.append(row)
    return {"what": found.what, "count": len(found), "selected": rows}


def _print_selection(scene: Scene, found: Selection) -> None:
    """Print the number of selected elements of each instance."""
    whole = found.what == "instances"
    rows = [("instance", "name") if whole else ("instance", found.what, "name")]
    for row in _selected(scene, found)["selected"]:
        ids = (str(row["instance_id"]),) if whole else (_path(row["path"]), str(len(row["ids"])))
        rows.append((*ids, one_line(row["name"])))
    print_table(rows, right=True)
    out.print(number_of(len(found), found.what, ","))
