"""The line for whoever waits at a terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from bvh.runtime.compiler import compile_notice
from bvh.runtime.compiler.compile_notice import CompileNotice


class Terminal(io.StringIO):
    """A stream that a person reads."""

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
    assert terminal.getvalue() == f"\r{'outer':<79}\n"
    compiled(notice, "another")
    assert terminal.getvalue() == f"\r{'outer':<79}\n"


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


def test_bars_make_room(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar of rich takes the stream's place, and prints above itself."""
    proxies = pytest.importorskip("rich.file_proxy")
    console = pytest.importorskip("rich.console").Console(file=terminal)
    stream = SimpleNamespace(stderr=proxies.FileProxy(console, terminal))
    monkeypatch.setattr(compile_notice, "sys", stream)
    compiled(CompileNotice(), "line")
    # rich 15 fills lines with blanks.
    assert [line.rstrip() for line in terminal.getvalue().splitlines()] == ["line"]


def test_its_clock_stands_still_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is left of the time is anybody's."""
    now = 10.0
    monkeypatch.setattr(compile_notice.time, "perf_counter", lambda: now)
    notice = CompileNotice()
    notice.silence()
    began, now = notice.clock(), 11.0
    assert notice.clock() - began == 1.0
    notice.begin("outer")
    now = 12.0
    notice.begin("inner")
    now = 13.0
    notice.end()
    assert notice.clock() - began == 1.0
    now = 14.0
    notice.end()
    now = 15.0
    assert notice.clock() - began == 2.0


def test_lines_fit_a_terminal() -> None:
    """The longest level is not broken in two."""
    from bvh.runtime.compiler.code_generator import target
    from bvh.runtime.compiler.dispatchers import own_pipelines
    from bvh.runtime.compiler.kernel_cache import KernelCache

    cache = KernelCache(test_lines_fit_a_terminal, None, own_pipelines)
    for kept in (True, False):
        assert len(cache._line(kept)) - len(target().level) + len("sapphirerapids") < 79
