"""The line for whoever waits at a terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from bvh.runtime.compiler import compile_notice
from bvh.runtime.compiler.compile_notice import CompileNotice


class Terminal(io.StringIO):
    """What a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return what stands for stderr; nobody is patient."""
    terminal = Terminal()
    monkeypatch.setattr(compile_notice, "sys", SimpleNamespace(stderr=terminal))
    monkeypatch.setattr(compile_notice, "AFTER_SECONDS", 0.0)
    return terminal


def compiled(notice: CompileNotice, *lines: str) -> None:
    """Compile kernels inside one another, each for as long as it takes to say something."""
    for line in lines:
        notice.begin(line)
    if notice._timer is not None:
        notice._timer.join(20)
    for _ in lines:
        notice.end()


def test_it_is_said_once_and_while_it_lasts(terminal: Terminal) -> None:
    notice = CompileNotice()
    compiled(notice, "outer", "inner")
    assert terminal.getvalue() == "outer\n"
    compiled(notice, "another")
    assert terminal.getvalue() == "outer\n"


def test_what_is_soon_done_is_not_told(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_notice, "AFTER_SECONDS", 600.0)
    notice = CompileNotice()
    notice.begin("quick")
    timer = notice._timer
    assert timer is not None
    notice.end()
    timer.join(20)
    assert not timer.is_alive() and terminal.getvalue() == ""


def test_nobody_reads(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, programs without a console, and who asked for it."""
    silent = CompileNotice()
    silent.silence()
    compiled(silent, "line")
    assert terminal.getvalue() == ""
    closed = Terminal()
    closed.close()
    for stream in (io.StringIO(), None, closed):
        monkeypatch.setattr(compile_notice, "sys", SimpleNamespace(stderr=stream))
        compiled(CompileNotice(), "line")
        assert not isinstance(stream, io.StringIO) or stream.closed or stream.getvalue() == ""


def test_notebooks_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream of a Jupyter kernel is no terminal, and is shown below the cell."""
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(compile_notice, "sys", SimpleNamespace(stderr=cell))
    monkeypatch.setattr(compile_notice, "AFTER_SECONDS", 0.0)
    compiled(CompileNotice(), "line")
    assert cell.getvalue() == "line\n"
