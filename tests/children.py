"""Scripts run in processes of their own: in a fresh interpreter, or in a fork that has Numba."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import bvh

PACKAGE = Path(bvh.__file__).parent
# Python 3.12 and newer advise against forks of processes that have threads; what becomes of them is
# what some scripts show.
FORKS = "ignore:This process:DeprecationWarning"
# Longest wait for a script.
PATIENCE_SECONDS = 900


class Forked:
    """A script in a fork, with some of the interface of `subprocess.Popen`."""

    def __init__(self, script: str, package: Path, environment: dict[str, str]) -> None:
        request = {
            "script": script, "environment": environment, "folder": os.getcwd(),
            "path": str(package.parent),
        }  # fmt: skip
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        self._status, status = os.pipe()
        files = [*(file.fileno() for file in self._files), status]
        socket.send_fds(_server().control, [json.dumps(request).encode()], files)
        os.close(status)
        self.returncode: int | None = None
        self.pid = int(self._line(PATIENCE_SECONDS))

    def _line(self, timeout: float) -> str:
        """Return the next line of the status."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked script", timeout)
            byte = os.read(self._status, 1)
            assert byte, "the process that forks for scripts has ended"
            line += byte
        return line.decode()

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for the end; return what was written to stdout and stderr."""
        self.returncode = int(self._line(timeout))
        os.close(self._status)
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return texts[0], texts[1]

    def kill(self) -> None:
        """End the script."""
        os.kill(self.pid, signal.SIGKILL)


class _Server(NamedTuple):
    control: socket.socket
    process: subprocess.Popen[bytes]
    parent: int

    def end(self) -> None:
        if os.getpid() == self.parent:
            self.control.close()
            self.process.wait()


_servers: list[_Server] = []


def _server() -> _Server:
    """Return the process that forks for scripts; the first call starts it."""
    if not _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", Path(__file__).with_name("forks.py"), str(theirs.fileno())],
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        _servers.append(_Server(ours, process, os.getpid()))
        atexit.register(_servers[0].end)
    return _servers[0]


def _environment(package: Path, settings: dict[str, Any]) -> dict[str, str]:
    usual = {"PYTHONPATH": package.parent, "PYTHONDONTWRITEBYTECODE": 1, "PYTHONWARNINGS": FORKS}
    settings = usual | settings
    changed = {name: str(value) for name, value in settings.items() if value is not None}
    return {k: v for k, v in os.environ.items() if k not in settings} | changed


def start(script: str, package: Path = PACKAGE, **settings: Any) -> subprocess.Popen[str]:
    """Run a script in a new interpreter, with changes of the environment (None removes)."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", script], env=_environment(package, settings), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def fork(script: str, package: Path = PACKAGE, **settings: Any) -> Forked | subprocess.Popen[str]:
    """Run a script as `start` does, in a process that has imported Numba already.

    Scripts about imports, about settings that Numba or Python read when they start, and about
    memory need `start`. Forks of one interpreter also hash texts alike.
    """
    numbas = {name: value for name, value in settings.items() if name.startswith("NUMBA_")}
    if sys.platform != "linux" or numbas != {name: os.environ.get(name) for name in numbas}:
        return start(script, package, **settings)
    return Forked(script, package, _environment(package, settings))


def answer(process: Forked | subprocess.Popen[str]) -> Any:
    """Return what a script printed as JSON; it must not have complained."""
    try:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    except BaseException:
        process.kill()
        raise
    # Pytest shows no values of an assertion in a module that is none of its tests.
    assert (process.returncode, errors) == (0, ""), errors
    return json.loads(output)
