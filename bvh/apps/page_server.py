"""Page server: pages that this process serves to browsers."""

from __future__ import annotations

import errno
import html
import io
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any, Self

from bvh.runtime.arguments import whole_number

HOST = "127.0.0.1"
# Number of ports that are tried.
TRIED = 1000
# Origins that may connect to a local server: its own pages, also through a forwarded port.
OUR_OWN = re.compile(r"https?://(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")

_starting = threading.Lock()


class Page:
    """A page in the browser, until it is closed. A notebook displays it in a frame.

    By default it is served to this machine alone, and not to other sites' pages in the same
    browser; it fetches nothing from elsewhere. Over ssh, forward its port:
    ``ssh -L 8080:localhost:8080 machine``.

    Attributes
    ----------
    url : str
        Address of the page.
    port : int
        The port in use.
    """

    # Height of the frame in a notebook.
    _height = 600

    def __init__(self, host: str, port: int, label: str) -> None:
        if not isinstance(host, str) or not host:
            raise ValueError(f"host must be an address such as {HOST!r}, got {host!r}")
        number = 0 if type(port) is int and port == 0 else whole_number("port", port)
        if number > 65535:
            raise ValueError(f"port must be at most 65535, got {port}")
        try:
            import viser
        except ImportError as error:
            raise ImportError(
                'pages in the browser need viser: pip install "raybvh[view]"'
            ) from error
        self._ended = threading.Event()
        number = _free_port(host, number)
        # viser prints its address on standard output.
        with redirect_stdout(io.StringIO()), _own_pages_only(host):
            server: Any = viser.ViserServer(host=host, port=number, label=label, verbose=False)
        self._server = server
        # No page may request a public address.
        self._server.request_share_url = lambda *_, **__: None
        self.port = int(self._server.get_port())
        shown = "localhost" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether the page has been closed."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Block until the page is closed, by another thread or by Ctrl-C."""
        # With a timeout, so that Ctrl-C interrupts it on all systems.
        while not self._ended.wait(0.5):
            pass

    def close(self) -> None:
        """Stop serving the page. A second call does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._leave()
        with redirect_stdout(io.StringIO()):
            self._server.stop()

    def _leave(self) -> None:
        """End what runs beside the server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'closed' if self.closed else repr(self.url)})"

    def _repr_html_(self) -> str:
        """HTML of a frame with the page, for notebooks."""
        if self.closed:
            return f"<code>{html.escape(repr(self))}</code>"
        url = html.escape(self.url)
        look = (
            f'width="100%" height="{self._height}" style="border:1px solid #ddd;border-radius:4px"'
        )
        link = f'<a href="{url}" target="_blank">{url}</a>'
        return f'<iframe src="{url}" {look}></iframe><div>{link}</div>'


def _free_port(host: str, first: int) -> int:
    """Return the first free port from `first` on, or 0 for any; viser would search for ever."""
    try:
        families = {found[0] for found in socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise OSError(f"host {host!r} is not known: {error}") from error
    for port in range(first, min(first + TRIED, 1 << 16)):
        try:
            for family in families:
                socket.create_server((host, port), family=family).close()
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                message = f"host {host!r} is not an address of this machine: {error}"
                raise OSError(message) from error
            continue
        return port
    raise OSError(f"no port of host {host!r} is free from {first} on")


@contextmanager
def _own_pages_only(host: str) -> Iterator[None]:
    """Make a local server that starts within refuse connections from pages of other sites.

    Browsers let the page of any site connect to any server that they can reach, and send its
    origin; viser does not check it.
    """
    if not OUR_OWN.fullmatch(f"http://{f'[{host}]' if ':' in host else host}"):
        yield
        return
    from websockets.asyncio import server

    serve: Any = server.serve
    # viser has no option for origins, so that `websockets.serve` is replaced while it starts.
    with _starting:
        server.serve = partial(serve, origins=(None, OUR_OWN))  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            server.serve = serve  # type: ignore[misc]
