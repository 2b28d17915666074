"""Draw all pictures, or those that are named: ``python -m bvh.docs.programs.gallery FOLDER``."""

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

from bvh.runtime.arguments import grouped

# The scripts, and the result of each in words.
SCRIPTS = {
    "leaks": "rays lost: {}",
    "thickness": "walls are from {thinnest:.1f} to {thickest:.1f} mm thick",
    "deviation": "largest error {float64:.5f} m in float64, {float32:.3f} m in float32",
    "sun": "up to {hours:.1f} hours of sun; the mast is seen from {seeing:.0%} of the points",
    "drive": "{} first, {} second and {} third returns",
    "solid": "a volume of {volume:.2f}",
    "selection": "picked from {pick}; {rectangle} faces in the rectangle, {lasso} in the lasso",
    "clearances": "least clearances in m: {}",
    "clash": "{volume:.1f} mm³ are shared, {depth:.2f} mm deep",
    "cloud": "{lasso} of {points} points are in the lasso, {gap:.3f} from their 8th neighbour",
    "drop_ins": "{agree} of {rays} rays agree",
    "terrain": "{seen:.0%} of the points are seen; the horizon rises to {horizon:.1f} degrees",
    "tour": "the cursor meets {faces} faces; the lasso selects {selected}",
    "sky_light": "points see {sky:.0%} of the sky; the CPU agrees: {same}",
}
# Scripts beside the gallery's folder.
BESIDE = ("clash", "cloud", "drop_ins", "sky_light", "terrain")


def home(name: str) -> str:
    """Return the module of a script."""
    return f"bvh.docs.programs.{'' if name in BESIDE else 'gallery.'}{name}"


def in_words(name: str, result: dict[str, float] | list[int]) -> str:
    """Return the result of the script `name` in words."""
    if isinstance(result, list):
        return SCRIPTS[name].format(*map(grouped, result))
    each = ", ".join(f"{key} {value:.3g}" for key, value in result.items() if key != "pick")
    return SCRIPTS[name].format(each, **result)


if __name__ == "__main__":
    about = "Draw the pictures of the gallery, all or those that are named."
    parser = ArgumentParser("python -m bvh.docs.programs.gallery", description=about)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where pictures are written")
    names = ", ".join(SCRIPTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    given = parser.parse_args()
    # Not by choices: Python 3.11 refuses their empty list.
    for name in given.names:
        if name not in SCRIPTS:
            parser.error(f"NAME must be some of {names}; got {name!r}")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or SCRIPTS:
        result = import_module(home(name)).main(given.folder / f"{name}.webp")
        print(f"{name}: {in_words(name, result)}")
