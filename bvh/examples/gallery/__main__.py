"""All pictures: ``python -m bvh.examples.gallery FOLDER`` draws them, or those that are named."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

SCRIPTS = (
    "leaks", "thickness", "deviation", "sun", "drive", "solid", "selection", "clearances", "tour",
)  # fmt: skip

if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name in names or SCRIPTS:
        found = import_module(f"bvh.examples.gallery.{name}").main(Path(folder) / f"{name}.webp")
        print(f"{name}: {found}")
