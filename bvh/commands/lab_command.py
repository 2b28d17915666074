"""`bvh lab`: a page in the browser where a ray meets a box."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from bvh.commands.console import out
from bvh.lab.page import PORT, ray_lab
from bvh.pages import HOST


def lab_command(
    host: Annotated[
        str, typer.Option(help="Address to listen on; only this machine by default.")
    ] = HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port, or the next free one; 0 for any.")
    ] = PORT,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Tell the address, and open no browser.")
    ] = False,
) -> None:
    """Open the ray lab: drag a ray and a box, and see where they meet and why.

    It shows the exact answer beside those of the box tests that articles teach. Over ssh, forward
    the port (ssh -L 8090:localhost:8090 there) and open the page here. Ctrl-C ends it.
    """
    with ray_lab(host=host, port=port) as lab:
        out.print(f"ray lab at {lab.url}, until Ctrl-C")
        if not no_open:
            webbrowser.open(lab.url)
        try:
            lab.wait()
        except KeyboardInterrupt:
            out.print("closed")
