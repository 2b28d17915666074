"""IfcOpenShell's clashes beside ours, those that it answers and those that it does not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ifcopenshell = pytest.importorskip("ifcopenshell", exc_type=ImportError)
geom = pytest.importorskip("ifcopenshell.geom", exc_type=ImportError)

from bvh.compat.ifcopenshell import tree as Tree  # noqa: E402

UNIT = ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
WALL = ([0.0, 0.0, 0.0], [4.0, 0.2, 3.0])
# Pairs of boxes, and the types of clashes that solids have: in each other, meeting, touching.
CASES: dict[str, tuple[Any, Any, int | None, bool, bool]] = {
    "corner": (UNIT, ([0.8, 0.5, 0.5], [2.0, 2.0, 2.0]), 0, True, True),
    "touch": (UNIT, ([1.0, 0.2, 0.2], [2.0, 0.7, 0.7]), None, False, True),
    "walls": (WALL, ([3.0, 0.0, 0.0], [7.0, 0.2, 3.0]), 0, True, True),
    "equal": (UNIT, UNIT, 0, True, True),
    "inside": (UNIT, ([0.25] * 3, [0.5] * 3), 0, True, True),
    "pierce": (UNIT, ([0.4, 0.4, -2.0], [0.6, 0.6, 3.0]), 1, True, True),
    "apart": (UNIT, ([1.03, 0.0, 0.0], [2.0, 1.0, 1.0]), None, False, False),
}
# Of these IfcOpenShell finds nothing, though interiors meet.
UNANSWERED = ("walls", "equal")


def model(*boxes: Any) -> tuple[Any, list[Any]]:
    """Return a file with a wall for each box, and the walls."""
    file = ifcopenshell.file(schema="IFC4")
    project = file.create_entity("IfcProject", GlobalId=ifcopenshell.guid.new(), Name="p")
    origin = file.createIfcAxis2Placement3D(file.createIfcCartesianPoint((0.0, 0.0, 0.0)))
    context = file.createIfcGeometricRepresentationContext(None, "Model", 3, 1e-5, origin, None)
    metre = file.createIfcSIUnit(None, "LENGTHUNIT", None, "METRE")
    project.UnitsInContext = file.createIfcUnitAssignment([metre])
    project.RepresentationContexts = [context]
    walls = []
    for low, high in boxes:
        x, y, z = (float(b - a) for a, b in zip(low, high, strict=True))
        middle = file.createIfcAxis2Placement2D(file.createIfcCartesianPoint((x / 2, y / 2)))
        profile = file.createIfcRectangleProfileDef("AREA", None, middle, x, y)
        up = file.createIfcDirection((0.0, 0.0, 1.0))
        solid = file.createIfcExtrudedAreaSolid(profile, origin, up, z)
        body = file.createIfcShapeRepresentation(context, "Body", "SweptSolid", [solid])
        corner = file.createIfcCartesianPoint(tuple(map(float, low)))
        place = file.createIfcLocalPlacement(None, file.createIfcAxis2Placement3D(corner))
        shape = file.createIfcProductDefinitionShape(None, None, [body])
        name = f"wall{len(walls)}"
        guid = ifcopenshell.guid.new()
        walls.append(file.createIfcWall(guid, None, name, None, None, place, shape, None, None))
    return file, walls


def filled(tree: Any, file: Any) -> Any:
    """Return a tree with the elements of a file."""
    iterator = geom.iterator(geom.settings(), file, 1)
    assert iterator.initialize()
    tree.add_element(iterator.get())
    while iterator.next():
        tree.add_element(iterator.get())
    return tree


@pytest.mark.parametrize("name", list(CASES))
def test_clashes(name: str) -> None:
    """Types of clashes, depths and clearances; IfcOpenShell's where it answers."""
    first, second, kind, meets, touches = CASES[name]
    file, (a, b) = model(first, second)
    ours = filled(Tree(), file)
    theirs = filled(geom.tree(backend="opencascade.trianglebvh"), file)
    deep = ours.clash_intersection_many([a], [b])
    assert [clash.clash_type for clash in deep] == ([] if kind is None else [kind])
    assert bool(ours.clash_collision_many([a], [b])) == meets
    assert bool(ours.clash_collision_many([a], [b], allow_touching=True)) == touches
    near = ours.clash_clearance_many([a], [b], clearance=0.05)
    known = theirs.clash_clearance_many([a], [b], clearance=0.05)
    assert [c.distance for c in near] == pytest.approx([c.distance for c in known])
    asked = theirs.clash_intersection_many([a], [b])
    if name in UNANSWERED:
        assert len(asked) == 0
    else:
        assert [c.clash_type for c in asked] == [c.clash_type for c in deep]
        for x, y in zip(asked, deep, strict=True):
            assert y.distance >= x.distance * 0.999
            assert {x.a.id(), x.b.id()} == {y.a.id(), y.b.id()}
            if name != "pierce":
                assert x.a.id() == y.a.id()
    for clash in deep:
        assert len(clash.p1) == len(clash.p2) == 3
        assert Tree.get_clash_type(clash.clash_type) in ("protrusion", "pierce")


def test_selections() -> None:
    """By a point, an element, a box and a ray."""
    file, walls = model(
        UNIT, ([2.0, 0.0, 0.0], [3.0, 1.0, 1.0]), ([1.0, 0.0, 0.0], [1.5, 1.0, 1.0])
    )
    tree, ids = Tree(file), [wall.id() for wall in walls]
    assert [e.id() for e in tree.select((0.5, 0.5, 0.5))] == ids[:1]
    assert {e.id() for e in tree.select((1.8, 0.5, 0.5), extend=0.25)} == {ids[1]}
    assert {e.id() for e in tree.select(walls[0])} == {ids[0], ids[2]}
    assert {e.id() for e in tree.select(walls[1], extend=0.6)} == {ids[1], ids[2]}
    assert {e.id() for e in tree.select_box(((-1.0,) * 3, (1.2,) * 3))} == {ids[0], ids[2]}
    theirs, box = geom.tree(file, geom.settings()), ((-1.0,) * 3, (1.2,) * 3)
    for ask, *given in (
        ("select", (0.5,) * 3),
        ("select_box", box),
        ("select_ray", UNIT[0], UNIT[1]),
    ):
        assert type(getattr(tree, ask)(*given)) is type(getattr(theirs, ask)(*given))
    within = tree.select_box(((-1.0,) * 3, (1.2,) * 3), completely_within=True)
    assert {e.id() for e in within} == {ids[0]}
    hits = tree.select_ray((-1.0, 0.3, 0.6), (2.0, 0.0, 0.0), length=2.5)
    assert [round(hit.distance, 9) for hit in hits] == [1.0, 2.0, 2.0, 2.5]
    assert hits[0].dot_product == -1.0
    assert len(tree.scene) == 3


def test_elements_without_geometry() -> None:
    """They are left out of all searches, as in IfcOpenShell; results are numbers of Python."""
    file, walls = model(UNIT, ([0.8, 0.5, 0.5], [2.0, 2.0, 2.0]))
    bare = file.create_entity("IfcWall", GlobalId=ifcopenshell.guid.new(), Name="bare")
    for tree in (Tree(file), filled(geom.tree(backend="opencascade.trianglebvh"), file)):
        for method in ("clash_intersection_many", "clash_collision_many", "clash_clearance_many"):
            search = getattr(tree, method)
            assert len(search([bare, *walls], [*walls, bare])) == 1
            assert len(search([bare], walls)) == 0
    ours = Tree(file)
    assert ours.select(bare) == ()
    assert ours.select_ray((0.5, 0.5, 5.0), (0.0, 0.0, 0.0)) == ()
    for size in (1e-200, 2.0, 1e200):
        hit, *_ = ours.select_ray((0.25, 0.5, 5.0), (0.0, 0.0, -size))
        assert hit.distance == 4.0
        assert {type(x) for x in (*hit.position, *hit.normal, hit.distance)} == {float}


def test_elements_exactly_as_far_as_asked() -> None:
    """Sums of a box and a distance are rounded, too: 0.2 + (0.9 - 0.2) < 0.9."""
    for low, high in ((0.2, 0.9), (-10.0, -1.9), (-2.9, 0.2)):
        file, walls = model(([low - 1, 0, 0], [low, 1, 1]), ([high, 0, 0], [high + 1, 1, 1]))
        tree = Tree(file)
        one, other = tree._solids
        extend = one.distance_to(other).distance
        for wall in walls:
            assert len(tree.select(wall, extend=extend)) == 2
            assert len(tree.select(wall, extend=0.99 * extend)) == 1


def test_ifcclash_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IfcClash's Clasher on our tree finds the walls that overlap."""
    ifcclash = pytest.importorskip("ifcclash.ifcclash", exc_type=ImportError)
    file, _ = model(WALL, CASES["walls"][1])
    path = tmp_path / "walls.ifc"
    file.write(str(path))
    monkeypatch.setattr(ifcopenshell.geom, "tree", Tree)
    settings = ifcclash.ClashSettings()
    settings.logger = logging.getLogger("clash")
    clasher = ifcclash.Clasher(settings)
    source = {"file": str(path)}
    clasher.clash_sets = [{"name": "x", "a": [source], "b": [dict(source)], "mode": "intersection",
                           "tolerance": 0.002, "check_all": True}]  # fmt: skip
    clasher.clash()
    assert len(clasher.clash_sets[0]["clashes"]) == 1


def test_open_elements() -> None:
    """Without a closed surface elements collide by their faces alone."""
    file, (a, b) = model(UNIT, ([0.5, 0.5, 0.5], [2.0, 2.0, 2.0]))
    tree = filled(Tree(), file)
    tree._closed[0] = False
    assert tree.clash_intersection_many([a], [b]) == ()
    assert len(tree.clash_collision_many([a], [b])) == 1
    assert np.isclose(tree.clash_clearance_many([a], [b])[0].distance, 0.0)
