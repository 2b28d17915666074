"""List of a scene's instances on the page: names, a search, eyes that hide, and one to frame."""

import html
from typing import Any

from bvh.apps.page_server import block
from bvh.apps.viewer.scene_copy import SceneCopy
from bvh.runtime.arguments import grouped

# Largest number of rows; the search of the page covers no other instances.
MAX_LISTED = 2000
_ROW = "display:flex;align-items:center;gap:0.4em;cursor:pointer;padding:0.05em 0.2em"
_NAME = "flex:1;overflow-wrap:anywhere"
_EYE = "border:0;background:none;color:inherit;cursor:pointer;min-width:2em;padding:0.2em"


class InstanceList:
    """The list of a scene's instances on a page; it is hidden for a single instance."""

    def __init__(self, gui: Any, copy: SceneCopy) -> None:
        """Add the list to the panel `gui`, viser's; it shows the instances of `copy`."""
        self._copy = copy
        # Content of the list: ids, names, hidden ids and the number of instances.
        self._listed: tuple[Any, ...] = ()
        self._folder = gui.add_folder("Instances", expand_by_default=False)
        with self._folder:
            gui.add_html(block(SEARCH))
            self._html = gui.add_html("")
        self.follow()

    def follow(self) -> None:
        """List the instances as they are now, if the list has changed."""
        # Most updates only move instances, up to many times a second.
        scene, hidden = self._copy.scene, self._copy.hidden
        numbers = scene.ids.tolist()[:MAX_LISTED]
        names = scene.names(numbers).tolist() if numbers else []
        listed = numbers, names, set(hidden), len(scene)
        if listed != self._listed:
            self._listed = listed
            self._folder.visible = len(scene) > 1
            self._html.content = _rows(numbers, names, hidden, len(scene))


def _rows(numbers: list[int], names: list[str | None], hidden: set[int], count: int) -> str:
    """Return HTML with a row for each instance: its id in `numbers`, its name, a button to hide it.

    `hidden` has the ids of hidden ones, and `count` is the number of all, also of those not listed.
    """
    rows = "".join(
        f'<div class="bvh-row" data-id="{number}" style="{_ROW}'
        f'{";opacity:0.5" if number in hidden else ""}">'
        f'<button style="{_EYE}" aria-label="{"Show" if number in hidden else "Hide"} '
        f'instance {number}" aria-pressed="{str(number in hidden).lower()}">'
        f"{CLOSED if number in hidden else OPEN}</button>"
        f'<span style="{_NAME}">{number}  {html.escape(name or "")}</span></div>'
        for number, name in zip(numbers, names, strict=True)
    )  # fmt: skip
    note = f"<div>and {grouped(count - MAX_LISTED)} more</div>" if count > MAX_LISTED else ""
    looks = 'tabindex="0" role="group" style="max-height:14em;overflow:auto"'
    return block(f'<div id="bvh-instances" aria-label="Instances" {looks}>{rows}{note}</div>')


SEARCH = (
    '<input id="bvh-search" type="search" placeholder="Search names" aria-label="Search '
    'names of instances" style="width:100%;font:inherit;padding:0.3em;border:1px solid '
    'rgba(128,128,128,.5);border-radius:4px;background:transparent;color:inherit">'
    '<div style="opacity:0.75">Double-click a row to frame it.</div>'
)
_SVG = (
    '<svg width="16" height="16" viewBox="0 0 24 24" fill="none" stroke="currentColor" '
    'stroke-width="2" aria-hidden="true"><path d="M2 12c4-8 16-8 20 0-4 8-16 8-20 0z"/>{}</svg>'
)
OPEN = _SVG.format('<circle cx="12" cy="12" r="3"/>')
CLOSED = _SVG.format('<path d="M3 3l18 18"/>')
