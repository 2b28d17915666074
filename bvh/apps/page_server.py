"""Page server: pages that this process serves to browsers, and their common texts."""

import errno
import html
import io
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib.resources import files
from typing import Any, Self

from numpy.typing import ArrayLike

from bvh.runtime.arguments import whole_number
from bvh.runtime.registry import extra

HOST = "127.0.0.1"
# How many ports, at most, are tried for a free one.
TRIED = 1000
# Origins that may connect to a local server: its own pages, also through forwarded ports.
OUR_OWN = re.compile(r"https?://(localhost|127(\.\d+){3}|\[::1\])(:\d+)?")
# An origin as browsers send it: scheme, host and perhaps a port.
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:[0-9]{1,5})?")
# Environment variables: additional origins, separated by commas or spaces; the default of `url`;
# and the path of the user's server in JupyterHub, under which jupyter-server-proxy has ports.
ORIGINS, URL, HUB = "BVH_ORIGINS", "BVH_URL", "JUPYTERHUB_SERVICE_PREFIX"

# An image of one pixel whose handler runs a script: browsers run no scripts in added HTML.
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="

# Controls of the camera of every page. Letters move it, as in games.
CAMERA_KEYS = (
    ("Drag", "orbit"),
    ("Right-drag", "pan"),
    ("Scroll", "zoom"),
    ("\N{LEFTWARDS ARROW} \N{RIGHTWARDS ARROW} \N{UPWARDS ARROW} \N{DOWNWARDS ARROW}", "orbit"),
    ("W A S D", "move forward, left, back, right"),
    ("Q E", "move down, up"),
)
_KEY = "border:1px solid #8888;border-radius:3px;padding:0 0.35em;white-space:nowrap;font:inherit"

# Held while `websockets.serve` is replaced (see `_own_pages_only`).
_starting = threading.Lock()


class Page:
    """A page in the browser, until it is closed; a notebook displays it in a frame."""

    # Height of the frame in a notebook.
    _height = 600

    def __init__(
        self, host: str, port: int, label: str, origins: Sequence[str] | None = None,
        url: str | None = None,
    ) -> None:  # fmt: skip
        """Start the server of a page, which viser calls `label`.

        `host` and `port` are the address to listen on, `origins` lists other sites whose pages may
        connect, and browsers find the page at `url`, as in `view`.
        """
        allowed: tuple[str | re.Pattern[str], ...] = allowed_origins(origins)
        public, name = public_url(url)
        if public.startswith("http"):
            # Pages from the public address are the server's own: allow its "https://host". The port
            # is not known yet: where the host has it, any port will do.
            start = "/".join(public.split("/")[:3])
            site = _origin(name, start.removesuffix(":{port}"))
            any_port = re.compile(re.escape(site) + r"(:\d+)?")
            allowed = (*allowed, any_port if start.endswith(":{port}") else site)
        if not isinstance(host, str) or not host:
            raise ValueError(f"host must be an address such as {HOST!r}, got {host!r}")
        number = whole_number("port", port, least=0)
        if number > 65535:
            raise ValueError(f"port must be at most 65535, got {port}")
        self._ended = threading.Event()
        self._server = new_server(host, number, label, allowed)
        # Pages must not be able to make viser serve them to the internet.
        self._server.request_share_url = lambda *_, **__: None
        self.port = int(self._server.get_port())
        shown = "localhost" if host in ("0.0.0.0", "::") else host
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{self.port}"
        # What the frame in a notebook shows: an address, or a path on the notebook's server.
        self._frame_url = public.replace("{port}", str(self.port)) or self.url
        if public.startswith("http"):
            self.url = self._frame_url

    @property
    def closed(self) -> bool:
        """Whether the page has been closed."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Block until the page is closed, by another thread or by Ctrl-C.

        Examples
        --------
        >>> import bvh
        >>> bvh.view(bvh.BVH.from_file("mesh.ply")).wait()  # doctest: +SKIP
        """
        # Wait with a timeout, so that Ctrl-C interrupts it on all systems.
        while not self._ended.wait(0.5):
            pass

    def close(self) -> None:
        """Stop serving the page. A second call does nothing.

        Examples
        --------
        >>> import bvh
        >>> bvh.ray_lab().close()  # doctest: +SKIP
        """
        if self._ended.is_set():
            return
        self._ended.set()
        self._stop_threads()
        with silent():
            self._server.stop()

    def _stop_threads(self) -> None:
        """Do nothing; subclasses whose pages have threads stop them here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'closed' if self.closed else repr(self.url)})"

    def _repr_html_(self) -> str:
        """Return the HTML of a frame with the page, for notebooks."""
        if self.closed:
            return f"<code>{html.escape(repr(self))}</code>"
        url = html.escape(self._frame_url)
        css = "border:1px solid #ddd;border-radius:4px"
        frame = f'<iframe src="{url}" width="100%" height="{self._height}" style="{css}"></iframe>'
        return f'{frame}<div><a href="{url}" target="_blank">{url}</a></div>'


def new_server(
    host: str, port: int, label: str, allowed: Sequence[str | re.Pattern[str]] = ()
) -> Any:
    """Start viser on the first free port of `host` from `port` on, and return its server.

    `label` is the name of its pages; pages of the origins `allowed` may connect, too.
    """
    with extra("view", "pages in the browser need viser"):
        import viser
    number = _free_port(host, port)
    with silent(), _own_pages_only(host, allowed):
        return viser.ViserServer(host=host, port=number, label=label, verbose=False)


def set_up(
    server: Any, up: ArrayLike, light: float, eye: ArrayLike, target: ArrayLike, fov: float
) -> None:
    """Set the lights and the first camera of the pages of viser's `server`.

    `up`, `eye` and `target` are in page coordinates, `light` is the intensity of light from all
    sides, and `fov` the vertical field of view in radians.
    """
    scene, start = server.scene, server.initial_camera
    scene.set_up_direction(up)
    # Shadows and reflections would take most of the frame time, and wash out colours.
    scene.configure_default_lights(cast_shadow=False)
    scene.configure_environment_map(None)
    scene.add_light_ambient("/light", intensity=light)
    start.position, start.look_at, start.up = eye, target, up
    # Near and far suit a scene that is two to four units large (see `PageFrame`).
    start.fov, start.near, start.far = fov, 0.002, 500.0


def _free_port(host: str, first: int) -> int:
    """Return the first free port of a host from `first` on; raise an OSError after TRIED ports.

    0, by which the system chooses a port, is returned as it is.
    """
    try:
        families = {found[0] for found in socket.getaddrinfo(host, first, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError) as error:
        raise OSError(f"host {host!r} is not known: {error}") from error
    for port in range(first, min(first + TRIED, 1 << 16)):
        try:
            for family in families:
                socket.create_server((host, port), family=family).close()
        except OSError as error:
            # A port that is in use, or only for administrators: try the next one.
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                message = f"host {host!r} is not an address of this machine: {error}"
                raise OSError(message) from error
        else:
            return port
    raise OSError(f"no port of host {host!r} is free from {first} on")


@contextmanager
def silent() -> Iterator[None]:
    """Suppress what viser prints in the block, on standard output and by rich in notebooks."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        console.quiet = before


def allowed_origins(origins: Sequence[str] | None) -> tuple[str, ...]:
    """Return additional origins that may connect: `origins`, and those in BVH_ORIGINS, checked."""
    if isinstance(origins, str) or not isinstance(origins, Iterable | None):
        raise TypeError(f"origins must be a sequence of strings, got {origins!r}")
    listed = os.environ.get(ORIGINS, "").replace(",", " ").split()
    named = [("origins", text) for text in origins or ()] + [(ORIGINS, text) for text in listed]
    return tuple(_origin(name, text) for name, text in named)


def _origin(name: str, text: object) -> str:
    """Return the origin `text` in lower case; a ValueError names `name`, where it comes from."""
    origin = text.rstrip("/").lower() if isinstance(text, str) else ""
    if not ORIGIN.fullmatch(origin):
        example = "https://hub.example.org"
        raise ValueError(f"{name} must be origins such as {example!r}, got {text!r}")
    return origin


def public_url(url: str | None) -> tuple[str, str]:
    """Return (the public address or path of pages, ending in a slash, and where it is from).

    It is "" if there is none; `{port}` in it is for the caller to replace. The second result is the
    name of the argument or of the environment variable, for errors.
    """
    name = "url"
    if url is None:
        name, url = URL, os.environ.get(URL)
    if not url and name == URL:
        # The path at which jupyter-server-proxy has a port of the user's server.
        name, prefix = HUB, os.environ.get(HUB)
        if not prefix:
            return "", name
        url = f"{prefix.rstrip('/')}/proxy/{{port}}/"
    if not isinstance(url, str):
        raise TypeError(f"url must be a string, got {url!r}")
    if not re.fullmatch(r"(https?:/)?/[^\s\"'<>?#]+", url) or url.startswith("//"):
        examples = "'https://hub.example.org/user/me/proxy/{port}/' or '/proxy/{port}/'"
        raise ValueError(f"{name} must be an address or a path such as {examples}, got {url!r}")
    return url if url.endswith("/") else f"{url}/", name


@contextmanager
def _own_pages_only(host: str, allowed: Sequence[str | re.Pattern[str]]) -> Iterator[None]:
    """Make a server on `host`, started in the block, refuse all but its own and `allowed` pages."""
    # Browsers let pages of any site connect to any server within reach, and send the origin of the
    # page, which viser does not check. A server for other machines, which may use any name for it,
    # accepts all pages, unless origins are listed.
    if not (allowed or OUR_OWN.fullmatch(f"http://{f'[{host}]' if ':' in host else host}")):
        yield
        return
    from websockets.asyncio import server

    serve: Any = server.serve
    # viser has no option for origins, so that `websockets.serve` is replaced while it starts.
    with _starting:
        # None: connections without an origin, such as those of programs.
        accepted = (None, OUR_OWN, *allowed)
        server.serve = partial(serve, origins=accepted)  # type: ignore[assignment,misc]
        try:
            yield
        finally:
            server.serve = serve  # type: ignore[misc]


def script_html(script: str) -> str:
    """Return HTML that runs a script when it is shown: the handler of an image of one pixel."""
    return f'<img alt="" src="{PIXEL}" onload="{html.escape(script)}" style="display:none">'


def head_html(title: str) -> str:
    """Return HTML that sets the title of the browser's tab, in place of viser's.

    It also names viser's icons for screen readers, and gives texts enough contrast.
    """
    folder, names = files(__package__), ("accessible.css", "accessible.js")
    style, script = (folder.joinpath(name).read_text("utf-8") for name in names)
    return f"<style>{style}</style>{script_html(f'document.title = {title!r};{script}')}"


def block(inner: str) -> str:
    """Return the HTML `inner` in a block with the size and margins of all texts in panels."""
    return f'<div style="font-size:0.8em;line-height:1.5;padding:0.15em 0.75em">{inner}</div>'


def help_html(rows: Sequence[tuple[str, str]]) -> str:
    """Return an HTML table of what mouse and keys do, from rows (key, what it does)."""
    cells = "".join(
        f'<tr><td style="padding:0.1em 1em 0.1em 0"><kbd style="{_KEY}">{html.escape(key)}</kbd>'
        f"</td><td>{html.escape(what)}</td></tr>"
        for key, what in rows
    )
    return block(f'<table id="bvh-keys" style="border-spacing:0">{cells}</table>')
