"""Texts of the page's panel, as HTML with an id for each value, and the page's script."""

import html
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from bvh.apps.page_server import block, head_html, script_html
from bvh.picking.results import Pick, Selection
from bvh.pictures.colours import HEAT
from bvh.runtime.arguments import grouped

# Looks of the page.
THEME: dict[str, Any] = {
    "control_width": "medium", "brand_color": (30, 110, 255), "show_logo": False,
    "show_share_button": False,
}  # fmt: skip
_AMBER = "background:#fff4d6;color:#7a5200;border-radius:4px;padding:0.4em 0.6em;margin-top:0.4em"
_DIM = "opacity:0.65"
# The text while a query waits for the compiler.
COMPILING = block(
    f'<div id="bvh-compiling" role="status" style="{_AMBER}">'
    "Compiling for the first query of this kind; this takes some seconds, once.</div>"
)
# The same width in all tables, so that they are aligned.
_NAME = "width:5.5em;padding:0;white-space:nowrap;vertical-align:top"


def header(title: str, what: str, notices: Sequence[str]) -> str:
    """Return the head of the panel: a title, the scene's content `what`, and notices, as texts."""
    style = f'class="bvh-notice" style="{_AMBER}"'
    boxes = "".join(f"<div {style}>{html.escape(notice)}</div>" for notice in notices)
    return block(
        f'<div><b id="bvh-title">{html.escape(title)}</b></div>'
        f'<div id="bvh-content" style="{_DIM}">{html.escape(what)}</div>{boxes}'
    )


def picked(pick: Pick | None, seconds: float | None = None, many: bool = False) -> str:
    """Return the text about a click, which has hit `pick`, or nothing if that is None.

    `seconds` is how long the pick took, None before the first click. The instance is named if the
    scene has `many` instances.
    """
    if seconds is None:
        return block('<span id="bvh-pick">Click a face to pick it.</span>')
    time = ("Time", "pick-time", _microseconds(seconds))
    if pick is None:
        return block(f'<span id="bvh-pick">Nothing there.</span>{table([time])}')
    name = "\N{EN DASH}" if pick.name is None else pick.name
    rows = [
        *([("Instance", "instance", f"{'/'.join(map(str, pick.path))}  {name}")] if many else []),
        ("Face" if pick.vertex is not None else "Box", "face", str(pick.prim_id)),
        ("Side", "side", "front" if pick.front else "back"),
        ("Distance", "distance", f"{pick.t:.9g}"),
        ("Position", "position", numbers(pick.position)),
        ("Normal", "normal", numbers(pick.normal, 5)),
    ]
    if pick.vertex is not None:
        rows.append(("u, v", "weights", numbers(np.array([pick.u, pick.v]), 6)))
    if pick.uv is not None:
        rows.append(("Texture", "uv", numbers(pick.uv, 6)))
    return block(f'<b id="bvh-pick">Picked</b>{table([*rows, time])}')


def selected(found: Selection | None, seconds: float, drawn: int, count: int = 0) -> str:
    """Return the text about a selection, which took `seconds`; a hint if `found` is None.

    `drawn` of its faces or vertices are drawn; `count` is the number of the scene's instances.
    """
    if found is None:
        hint = "Choose rectangle or lasso and drag, or hold shift."
        return block(f'<span id="bvh-selection" style="{_DIM}">{hint}</span>')
    text = f'Selected <b id="bvh-selected">{grouped(len(found))}</b> '
    if found.what == "instances":
        text += f"of {grouped(count)} instances"
    else:
        instances = len(np.unique(found.instance_id))
        text += f'{found.what} of <span id="bvh-selected-instances">{grouped(instances)}</span> '
        text += "instance" if instances == 1 else "instances"
    more = f"; the first {grouped(drawn)} are drawn" if drawn < len(found) else ""
    text += f" in {_milliseconds(seconds)}{more}"
    return block(f'<span id="bvh-selection">{text}</span>')


def hovered(pick: Pick | None, distance: float, seconds: float) -> str:
    """Return a line about a pick under the pointer, `distance` from the eye; a dash for None."""
    line = "\N{EN DASH}"
    if pick is not None:
        name = "" if pick.name is None else f" of {pick.name}"
        line = f"face {pick.prim_id}{name}, distance {distance:.6g}, in {_microseconds(seconds)}"
    return block(table([("Pointer", "hover", line)]))


def picture_text(
    size: tuple[int, int], rays: int, casting: float, seconds: float, hottest: float | None
) -> str:
    """Return the text about a picture of `size` (width, height), and the legend of a cost map.

    The picture took `seconds`, `casting` of them to cast and shade `rays` rays. `hottest` is the
    cost that the map's last colour stands for, None for other pictures.
    """
    cast = f"{grouped(rays)} cast and shaded in {_milliseconds(casting)}"
    pixels = f"{size[0]} \N{MULTIPLICATION SIGN} {size[1]}, shown after {_milliseconds(seconds)}"
    rows = [("Rays", "rays", cast), ("Picture", "picture", pixels)]
    if hottest is None:
        return block(table(rows))
    stops = ", ".join(f"rgb({', '.join(f'{255 * x:.0f}' for x in colour)})" for colour in HEAT)
    bar = f'<div style="height:0.8em;border-radius:2px;background:linear-gradient(90deg,{stops})">'
    ends = f"<span>0</span><span>nodes and groups a ray visits</span><span>{hottest:.0f}+</span>"
    return block(
        f'{table(rows)}{bar}</div><div id="bvh-legend" style="display:flex;'
        f'justify-content:space-between;{_DIM}">{ends}</div>'
    )


def measured(ends: np.ndarray | None, distance: float = 0.0, started: bool = False) -> str:
    """Return a table of a distance and its end points (2, 3).

    Without end points, return a hint what to click: the second point if `started`.
    """
    if ends is None:
        hint = "Click the other one." if started else "Click the first one."
        return block(f'<span id="bvh-measure" style="{_DIM}">{hint}</span>')
    rows = [
        ("Distance", "measure", f"{distance:.9g}"),
        ("dx, dy, dz", "step", numbers(ends[1] - ends[0])),
        ("From", "from", numbers(ends[0])), ("To", "to", numbers(ends[1])),
    ]  # fmt: skip
    return block(table(rows))


def dragging(tool: str) -> str:
    """Return the HTML from which the page's script reads `tool`: "rectangle", "lasso" or ""."""
    return f'<span id="bvh-tool" data-tool="{tool}"></span>'


def watching_html() -> str:
    """Return HTML that starts the page's script; the text field for the cursor must follow it."""
    # The script looks for the field behind the element "bvh-cursor".
    script = files(__package__).joinpath("pointer.js").read_text("utf-8")
    return f'<span id="bvh-cursor"></span>{head_html("bvh")}{script_html(script)}'


def cursor_of(text: str) -> tuple[float, float] | None:
    """Return (x, y) in a text such as "50, 25 %" as shares of the picture; None for other texts."""
    # Shares, because the page reduces its number of pixels when it has much to draw.
    try:
        x, y = (float(part) / 100.0 for part in text.replace("%", "").split(","))
    except ValueError:
        return None
    return x, y


def numbers(values: np.ndarray, digits: int = 9) -> str:
    """Return numbers as text with commas between them, rounded to a number of digits."""
    # Adding 0 turns -0.0 into 0.
    return ", ".join(f"{x + 0.0:.{digits}g}" for x in values.tolist())


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Return an HTML table of rows (name, id of the value's cell, value)."""
    style = "font-variant-numeric:tabular-nums;overflow-wrap:anywhere"
    cells = "".join(
        f'<tr><td style="{_DIM};{_NAME}">{name}</td>'
        f'<td id="bvh-{key}" style="{style}">{html.escape(value)}</td></tr>'
        for name, key, value in rows
    )
    return f'<table style="border-spacing:0;width:100%">{cells}</table>'


def _microseconds(seconds: float) -> str:
    """Return a time as text in µs, or in ms or s from 1 ms on."""
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else _milliseconds(seconds)


def _milliseconds(seconds: float) -> str:
    """Return a time as text in ms, or in s from 1 s on."""
    # 0.9995 s rounds to 1000 ms, which three digits do not hold.
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"
