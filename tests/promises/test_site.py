"""The site of the documentation."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_warning_fails_the_build(tmp_path: Path) -> None:
    """With the options that .ci/run gives: some switch strictness off again."""
    pytest.importorskip("mkdocs")
    if not (ROOT / ".ci" / "run").is_file():
        pytest.skip("not a clone of the repository")
    (line,) = [x for x in (ROOT / ".ci" / "run").read_text().splitlines() if "mkdocs build" in x]
    words = shlex.split(line)
    options = words[words.index("build") + 1 : words.index("-f")]
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# One page\n")
    settings = tmp_path / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", *options, "-f", str(settings)]
    for nav, code in (("", 0), ("nav: [index.md, missing.md]\n", 1)):
        settings.write_text(f"site_name: site\n{nav}")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
