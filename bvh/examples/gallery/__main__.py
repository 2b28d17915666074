"""All pictures: ``python -m bvh.examples.gallery FOLDER`` draws them, or those that are named."""

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

SCRIPTS = (
    "leaks", "thickness", "deviation", "sun", "drive", "solid", "selection", "clearances", "tour",
)  # fmt: skip

if __name__ == "__main__":
    text = "Draw the pictures of the gallery, all or those that are named."
    parser = ArgumentParser("python -m bvh.examples.gallery", description=text)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where pictures are written")
    names = ", ".join(SCRIPTS)
    parser.add_argument("names", nargs="*", choices=SCRIPTS, metavar="NAME", help=names)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or SCRIPTS:
        found = import_module(f"bvh.examples.gallery.{name}").main(given.folder / f"{name}.webp")
        print(f"{name}: {found}")
