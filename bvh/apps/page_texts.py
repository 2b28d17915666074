"""Texts that all pages share: the title of the browser's tab, and what mouse and keys do."""

import html
from collections.abc import Sequence

# An image of one pixel, whose handler runs a script: browsers run none in HTML that is added later.
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="

# Of the camera of every page. Keys of letters move it, as in games.
CAMERA_KEYS = (
    ("Drag", "orbit"),
    ("Right-drag", "pan"),
    ("Scroll", "zoom"),
    ("\N{LEFTWARDS ARROW} \N{RIGHTWARDS ARROW} \N{UPWARDS ARROW} \N{DOWNWARDS ARROW}", "orbit"),
    ("W A S D", "move forward, left, back, right"),
    ("Q E", "move down, up"),
)
_KEY = (
    "border:1px solid rgba(128,128,128,.45);border-radius:3px;padding:0 0.35em;white-space:nowrap;"
    "font:inherit"
)


def running(script: str) -> str:
    """Return HTML that runs a script when it is shown."""
    return f'<img alt="" src="{PIXEL}" onload="{html.escape(script)}" style="display:none">'


def tab_title(title: str) -> str:
    """Return HTML that sets the title of the browser's tab; viser's own is that of viser."""
    return running(f"document.title = {title!r};")


def block(inner: str) -> str:
    """Return HTML in the size and with the margins of all texts in panels."""
    return f'<div style="font-size:0.8em;line-height:1.5;padding:0.15em 0.75em">{inner}</div>'


def help_html(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of what mouse and keys do."""
    cells = "".join(
        f'<tr><td style="padding:0.1em 1em 0.1em 0"><kbd style="{_KEY}">{html.escape(key)}</kbd>'
        f"</td><td>{html.escape(what)}</td></tr>"
        for key, what in rows
    )
    return block(f'<table id="bvh-keys" style="border-spacing:0">{cells}</table>')
