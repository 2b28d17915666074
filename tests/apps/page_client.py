"""A client of a page's server, as the page in the browser is one: it applies what it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

viser = pytest.importorskip("viser")
msgspec = pytest.importorskip("msgspec")
zstandard = pytest.importorskip("zstandard")
ConnectionClosed = pytest.importorskip("websockets.exceptions").ConnectionClosed
connect = pytest.importorskip("websockets.sync.client").connect

PATIENCE = 60.0


class PageClient:
    """A connection to the server of a page, with the nodes of its scene by their names.

    `nodes` are dictionaries of properties; `windows` counts the messages of the websocket, each of
    which the page applies at once, and `updates` those among them that change a node. `changes`
    lists changed properties of controls in their order, each with the control's id.
    """

    def __init__(self, url: str, origin: str | None = None, eye: Any = (0.0, 0.0, 5.0)) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.windows = self.updates = self.bytes = 0
        self.html: dict[str, str] = {}
        self.changes: list[tuple[str, str, Any]] = []
        self._socket = connect(
            url.replace("http", "ws", 1), origin=origin, proxy=None, max_size=None,
            subprotocols=[f"viser-v{viser.__version__}"], open_timeout=PATIENCE,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.send(
            "ViewerCameraMessage", wxyz=(0.0, 1.0, 0.0, 0.0), position=eye, fov=1.0, near=0.01,
            far=100.0, image_height=100, image_width=100, look_at=(0.0, 0.0, 0.0),
            up_direction=(0.0, 1.0, 0.0),
        )  # fmt: skip

    def send(self, kind: str, **content: Any) -> None:
        """Send a message, as the page would."""
        self._socket.send(msgspec.msgpack.encode({"type": kind, **content}))

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Return what a condition returns, once it is true."""
        end = time.monotonic() + PATIENCE
        while not (found := condition()):
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.01)
        return found

    def meshes(self) -> list[dict[str, Any]]:
        """Return the meshes of the scene, without marks."""
        return [node for name, node in list(self.nodes.items()) if name.startswith("/meshes/")]

    def places(self) -> np.ndarray:
        """Return the positions of all copies of all meshes, sorted, shape (n, 3)."""
        found = [np.reshape(mesh["places"], (-1, 3)) for mesh in self.meshes()]
        rows = np.concatenate(found) if found else np.empty((0, 3))
        return rows[np.lexsort(rows.T)]

    def close(self) -> None:
        """Leave the page."""
        self._socket.close()
        self._thread.join(PATIENCE)

    def __enter__(self) -> PageClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        try:
            for data in self._socket:
                assert isinstance(data, bytes)
                size = int.from_bytes(data[8:16], "little")
                content = msgspec.msgpack.decode(
                    zstandard.ZstdDecompressor().decompress(data[16 : 16 + size])
                )
                buffers, at = [], 16 + size
                for length in content["binaryBufferLengths"]:
                    at += -at % 8
                    buffers.append(data[at : at + length])
                    at += length
                before = self.updates
                for message in content["messages"]:
                    self._apply(message, buffers)
                self.updates = min(self.updates, before + 1)
                self.windows, self.bytes = self.windows + 1, self.bytes + len(data)
        except ConnectionClosed:
            pass

    def _apply(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        """Apply one message to the nodes."""
        kind, name = message["type"], message.get("name", "")
        if kind == "GuiUpdateMessage":
            uuid = message["uuid"]
            self.changes += [(uuid, *change) for change in message["updates"].items()]
        if kind == "RemoveSceneNodeMessage":
            self.nodes.pop(name, None)
        elif kind == "GuiHtmlMessage":
            self.html[message["uuid"]] = message["props"]["content"]
        elif kind == "GuiUpdateMessage" and "content" in message["updates"]:
            self.html[message["uuid"]] = message["updates"]["content"]
        elif kind in ("SetPositionMessage", "SceneNodeUpdateMessage") or "props" in message:
            values = message.get("props", message.get("updates", message))
            node = {} if "props" in message else self.nodes.get(name, {})
            node = node | {key: _value(value, buffers) for key, value in values.items()}
            node["places"] = node.get("batched_positions", node.get("position", np.zeros(3)))
            self.nodes[name] = node
            self.updates += name.startswith("/meshes/")


def _value(value: Any, buffers: list[bytes]) -> Any:
    """Return a value of a message, an array if it is one."""
    if not (isinstance(value, dict) and "__binary_index" in value):
        return value
    found = np.frombuffer(buffers[value["__binary_index"]], value["dtype"])
    return found
