"""Pages that this process serves to browsers."""

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

from bvh.arguments import whole_number

HOST = "127.0.0.1"
# Ports that are tried, from the one that is wanted on.
TRIED = 1000
# Pages that may talk to a server of this machine alone: its own, also through a forwarded port.
OUR_OWN = re.compile(r"https?://(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")

_starting = threading.Lock()


class Page:
    """A page in the browser, until it is closed. In a notebook it shows itself.

    It is served to this machine alone unless its host says otherwise, also where another site's
    page in the same browser asks, and fetches nothing from elsewhere. Over ssh, forward its port:
    ``ssh -L 8080:localhost:8080 machine``.

    Attributes
    ----------
    url : str
        Where the page is.
    port : int
        The port that was free.
    """

    # Of the frame in a notebook.
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
        # It prints its address as if it were the program.
        with redirect_stdout(io.StringIO()), _own_pages_only(host):
            server: Any = viser.ViserServer(host=host, port=number, label=label, verbose=False)
        self._server = server
        # No page may ask for a public address of what is shown here.
        self._server.request_share_url = lambda *_, **__: None
        self.port = int(self._server.get_port())
        shown = "localhost" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"

    @property
    def closed(self) -> bool:
        """Whether the page is served no more."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Return when the page is closed, by another thread or by Ctrl-C."""
        # With a limit, so that Ctrl-C is heard on all systems.
        while not self._ended.wait(0.5):
            pass

    def close(self) -> None:
        """Serve the page no more. A second time does nothing."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._leave()
        with redirect_stdout(io.StringIO()):
            self._server.stop()

    def _leave(self) -> None:
        """End what goes on beside the server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'closed' if self.closed else repr(self.url)})"

    def _repr_html_(self) -> str:
        """Show the page in a notebook."""
        if self.closed:
            return f"<code>{html.escape(repr(self))}</code>"
        url = html.escape(self.url)
        look = (
            f'width="100%" height="{self._height}" style="border:1px solid #ddd;border-radius:4px"'
        )
        link = f'<a href="{url}" target="_blank">{url}</a>'
        return f'<iframe src="{url}" {look}></iframe><div>{link}</div>'


def _free_port(host: str, first: int) -> int:
    """Return the first free port from one on, or 0 for any; the server would try for ever."""
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
                told = f"host {host!r} is no address of this machine: {error}"
                raise OSError(told) from error
            continue
        return port
    raise OSError(f"no port of host {host!r} is free from {first} on")


@contextmanager
def _own_pages_only(host: str) -> Iterator[None]:
    """Have a server that starts now refuse pages of other sites, if it is for this machine alone.

    Browsers let the page of any site talk to any server that they can reach, and tell where it
    comes from; viser does not ask.
    """
    if not OUR_OWN.fullmatch(f"http://{f'[{host}]' if ':' in host else host}"):
        yield
        return
    from websockets.asyncio import server

    serve: Any = server.serve
    # viser passes nothing on to the server that it makes, so that its maker is stood in for.
    with _starting:
        server.serve = partial(serve, origins=(None, OUR_OWN))  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            server.serve = serve  # type: ignore[misc]
