"""Events of a page that viser does not report: taps, regions, keys, lists, colour schemes."""

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from bvh.apps.page_server import script_html

Handler = Callable[[dict[str, Any]], object]


class PageEvents:
    """Events that the script of a page writes into a text field, each handled once, in order.

    The field holds the last few as JSON, with numbers "n", because viser may skip a value of a
    field that changes quickly.
    """

    def __init__(self, gui: Any, handlers: Mapping[str, Handler]) -> None:
        """Add the field to the panel `gui`; `handlers` are functions of an event by its "kind"."""
        gui.add_html('<span id="bvh-events"></span>')
        self._field = gui.add_text("Events", "")
        # The number of the last event that was handled.
        self._seen, self._handlers, self._lock = -1, handlers, threading.Lock()
        self._field.on_update(lambda _: self._handle())

    def _handle(self) -> None:
        """Handle the new events in the field; ignore a text that is not a list of events."""
        # viser calls this in several threads, but events must be handled in order.
        with self._lock:
            try:
                events = json.loads(self._field.value)
                new = [event for event in events if event["n"] > self._seen]
            except (ValueError, TypeError, KeyError):
                # Any client of the server may write anything into the field.
                return
            for event in new:
                self._seen = event["n"]
                handler = self._handlers.get(event.get("kind"))
                if handler is not None:
                    handler(event)


def copying_html(text: str) -> str:
    """Return HTML that copies a text to the clipboard when it is shown."""
    return script_html(f"navigator.clipboard && navigator.clipboard.writeText({json.dumps(text)});")
