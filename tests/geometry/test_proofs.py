"""Proofs of the bounds of filters: of the constants that the code has, by Gappa where it is had."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

import bvh

FILES = sorted((Path(__file__).parents[1] / "proofs").glob("*.gappa"))
ROOT = Path(bvh.__file__).parent
# Folders and files whose filters are proven, and which of their bounds are derived by hand alone.
PROVEN = ("geometry", "surfaces", "picking", "tree/triangle_groups.py", "traversal/rays")
BY_HAND = {
    "geometry/pairs/round_gaps.py SUM_ERROR",
    "geometry/pairs/triangle_distance.py FILTER_ERROR",
    "geometry/pairs/triangle_distance.py SIGN_ERROR",
}


def proven(file: Path) -> dict[str, Fraction]:
    """Return the constants of a proof, as path and name, and the values that it is of."""
    text, found = file.read_text(), {}
    for path, name in re.findall(r"^# Constant: bvh/(\S+) (\w+)$", text, re.MULTILINE):
        (value,) = re.findall(rf"^{name} = (\S+);$", text, re.MULTILINE)
        number, _, power = value.partition("b")
        found[f"{path} {name}"] = Fraction(number) * Fraction(2) ** int(power or 0)
    return found


def holds(text: str) -> bool:
    """Tell whether Gappa proves a file."""
    command = ["gappa", "-Eprecision=256", "-Eno-auto-dichotomy"]
    return subprocess.run(command, input=text, text=True, capture_output=True).returncode == 0


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_constants(file: Path) -> None:
    """What is proven is what the code decides by."""
    constants = proven(file)
    assert constants
    for place, value in constants.items():
        path, name = place.split()
        module = import_module("bvh." + path.removesuffix(".py").replace("/", "."))
        # A number that is no double, as 1.04, is the nearest one in the code.
        assert getattr(module, name) == float(value), place


@pytest.mark.skipif(shutil.which("gappa") is None, reason="needs Gappa")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_proofs(file: Path) -> None:
    """All are proven, and none of a smaller constant: each decides in its proof."""
    text = file.read_text()
    assert holds(text)
    for place in proven(file):
        name = place.split()[1]
        assert not holds(re.sub(rf"^({name} = .*);$", r"\1 * 1b-20;", text, flags=re.MULTILINE))


def test_all_filters() -> None:
    """A bound of a filter has a proof, or is listed as derived by hand."""
    named = set()
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        for line in ast.parse(path.read_text()).body if place.startswith(PROVEN) else ():
            if isinstance(line, ast.Assign) and "**" in ast.unparse(line.value):
                names = {
                    node.id for node in ast.walk(line.targets[0]) if isinstance(node, ast.Name)
                }
                named |= {f"{place} {name}" for name in names if name.endswith("ERROR")}
    assert named - {place for file in FILES for place in proven(file)} == BY_HAND
