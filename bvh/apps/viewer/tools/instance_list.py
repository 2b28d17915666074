"""List of a scene's instances on the page: names, a search, eyes that hide, and one to frame."""

from __future__ import annotations

import html
from typing import Any

from bvh.apps.page_server import block

# Rows of the list; the search of the page looks through these.
MAX_LISTED = 2000
_ROW = "display:flex;align-items:center;gap:0.4em;cursor:pointer;padding:0.05em 0.2em"
_NAME = "flex:1;overflow-wrap:anywhere"
_EYE = "border:0;background:none;color:inherit;cursor:pointer;min-width:2em;padding:0.2em"


class InstanceList:
    """The list on the page of a session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._html = session.client.gui.add_html(self._rows())

    def follow(self) -> None:
        """List the instances as they are now."""
        shown = self._rows()
        if shown != self._html.content:
            self._html.content = shown

    def hide(self, instance_id: int) -> None:
        """Hide an instance, or show it again."""
        session = self._session
        with session.asking():
            if instance_id in session.scene:
                session.hide(instance_id)
                self.follow()

    def _rows(self) -> str:
        scene, hidden = self._session.scene, self._session.hidden
        numbers = scene.ids.tolist()
        names = scene.names(numbers) if numbers else []
        rows = "".join(
            f'<div class="bvh-row" data-id="{number}" style="{_ROW}'
            f'{";opacity:0.5" if number in hidden else ""}">'
            f'<button style="{_EYE}" aria-label="{"Show" if number in hidden else "Hide"} '
            f'instance {number}" aria-pressed="{str(number in hidden).lower()}">'
            f"{CLOSED if number in hidden else OPEN}</button>"
            f'<span style="{_NAME}">{number}  {html.escape(name or "")}</span></div>'
            for number, name in zip(numbers[:MAX_LISTED], names, strict=False)
        )  # fmt: skip
        more = len(numbers) - MAX_LISTED
        note = f"<div>and {more} more</div>" if more > 0 else ""
        search = (
            '<input id="bvh-search" type="search" placeholder="Search names" aria-label="Search '
            'names of instances" style="width:100%;font:inherit;padding:0.3em;border:1px solid '
            'rgba(128,128,128,.5);border-radius:4px;background:transparent;color:inherit">'
        )
        hint = '<div style="opacity:0.75">Double-click a row to frame it.</div>'
        looks = 'tabindex="0" role="group" style="max-height:14em;overflow:auto"'
        return block(
            f'{search}{hint}<div id="bvh-instances" aria-label="Instances" {looks}>{rows}{note}'
            "</div>"
        )


_SVG = (
    '<svg width="16" height="16" viewBox="0 0 24 24" fill="none" stroke="currentColor" '
    'stroke-width="2" aria-hidden="true"><path d="M2 12c4-8 16-8 20 0-4 8-16 8-20 0z"/>{}</svg>'
)
OPEN = _SVG.format('<circle cx="12" cy="12" r="3"/>')
CLOSED = _SVG.format('<path d="M3 3l18 18"/>')
