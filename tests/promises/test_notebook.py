"""The notebook of the examples: it runs, and tells and shows what is kept in it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are those of the file, but for numbers; pictures and the viewer's frame are shown."""
    pytest.importorskip("viser")
    import nbformat

    from tests.notebooks import NOTEBOOK, executed, kept, texts

    # The kernel finds the package where the tests do.
    monkeypatch.setenv("PYTHONPATH", str(NOTEBOOK.parents[2]), prepend=":")
    found = executed(tmp_path)
    stored = nbformat.read(NOTEBOOK, as_version=4)
    assert texts(kept(found)) == texts(stored)
    data = [o.data for c in found.cells for o in c.get("outputs", []) if "data" in o]
    assert sum("image/png" in each for each in data) == 3
    frames = [each["text/html"] for each in data if "<iframe" in each.get("text/html", "")]
    assert len(frames) == 1 and 'src="http://127.0.0.1:' in frames[0]
    assert NOTEBOOK.stat().st_size < 100_000 and "iframe" not in NOTEBOOK.read_text()
