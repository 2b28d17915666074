"""The README as a page of an index, which knows no address of the repository: hatchling runs it.

Links to files of the repository become plain text, and its pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

NOTE = "The pages named here are in the package, in `bvh/docs`; pictures are in the source."


def standalone(text: str) -> str:
    """Return a text that leads to no file beside it, with a note where the pages are."""
    text = re.sub(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n+", "", text)
    text = re.sub(r"<(table|picture)\b[^>]*>\n.*?</\1>\n+", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^]]+)\]\((?!https?:|#)[^)]*\)", r"\1", text)
    return f"{text.rstrip()}\n\n{NOTE}\n"


class Readme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": standalone(text)}
