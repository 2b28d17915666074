"""What scenes refuse, by what error, and that it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bvh import BVH, Scene

TREE = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
EYE = np.eye(4)
REFUSED: dict[str, tuple[Callable[[Scene], Any], type[Exception], str]] = {
    "child": (lambda s: s.add(3), TypeError, "mesh must be"),
    "no child": (lambda s: s.add(None), TypeError, "mesh must be"),
    "singular": (lambda s: s.add(TREE, np.zeros((4, 4))), ValueError, "transform must be affine"),
    "flat": (lambda s: s.add(TREE, np.diag([1, 1, 0, 1.0])), ValueError, "must be invertible"),
    "not finite": (lambda s: s.add(TREE, EYE * np.nan), ValueError, "transform must be finite"),
    "perspective": (lambda s: s.add(TREE, EYE + np.eye(4, k=-1)), ValueError, "last row 0 0 0 1"),
    "many for one": (lambda s: s.add(TREE, EYE[None]), ValueError, r"must have shape \(4, 4\)"),
    "small": (lambda s: s.add(TREE, np.eye(3)), ValueError, "transform must have shape"),
    "name": (lambda s: s.add(TREE, name=3), TypeError, "name must be a string"),
    "mask": (lambda s: s.add(TREE, mask=-1), ValueError, "mask must be in 0..0xFFFFFFFF, got -1"),
    "wide mask": (lambda s: s.add(TREE, mask=2**32), ValueError, "mask must be in 0..0xFFFF"),
    "huge mask": (lambda s: s.add(TREE, mask=2**70), TypeError, "mask must be integers"),
    "real mask": (lambda s: s.add(TREE, mask=1.5), TypeError, "mask must be integers"),
    "masks": (lambda s: s.add(TREE, mask=[1]), ValueError, "single values"),
    "visible": (lambda s: s.add(TREE, visible=1), TypeError, "visible must be True or False"),
    "one for many": (lambda s: s.add_many(TREE, EYE), ValueError, r"shape \(n, 4, 4\)"),
    "one of many": (
        lambda s: s.add_many(TREE, [EYE, EYE * 0]), ValueError, r"transforms\[1\] must be affine"
    ),
    "names": (lambda s: s.add_many(TREE, [EYE], "ab"), ValueError, "names must be 1 names"),
    "a name": (lambda s: s.add_many(TREE, [EYE], [3]), TypeError, "names must be a string"),
    "many masks": (lambda s: s.add_many(TREE, [EYE], masks=[1, 2]), ValueError, "masks must be"),
    "id": (lambda s: s.set_transform(7, EYE), KeyError, "there is no instance 7"),
    "negative id": (lambda s: s.remove(-1), KeyError, "there is no instance -1"),
    "removed id": (lambda s: s.set_transform(1, EYE), KeyError, "there is no instance 1"),
    "ids": (lambda s: s.set_transforms([0, 9], [EYE, EYE]), KeyError, "there is no instance 9"),
    "removed ids": (lambda s: s.set_visible([0, 1], True), KeyError, "there is no instance 1"),
    "real id": (lambda s: s.set_transform(0.0, EYE), TypeError, "instance_id must be an integer"),
    "true id": (lambda s: s[True], TypeError, "instance_id must be an integer"),
    "real ids": (lambda s: s.remove([0.5]), TypeError, "ids must be integers"),
    "ids in rows": (lambda s: s.remove([[0]]), ValueError, r"ids must have shape \(n,\)"),
    "lengths": (lambda s: s.set_transforms([0, 0], [EYE]), ValueError, r"shape \(2, 4, 4\)"),
    "rename": (lambda s: s.rename(0, 3), TypeError, "name must be a string"),
    "leaf": (lambda s: s.path(5), IndexError, "leaf must be one of the 1 leaves, got 5"),
    "no leaf": (lambda s: s.name_of(-1), IndexError, "leaf must be one of"),
    "flattened": (lambda s: s.flattened(-1), ValueError, "mask must be in 0..0xFFFFFFFF, got -1"),
    "many flattened": (lambda s: s.flattened([1, 2]), ValueError, "mask must be one number"),  # type: ignore[arg-type]
    "row": (lambda s: s.leaves[5], IndexError, "range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """The message names the argument; the scene stays as it was."""
    scene = Scene()
    scene.add(TREE, name="it")
    scene.remove(scene.add(TREE))
    before = repr(scene), scene[0].name, scene[0].transform.tolist(), scene.ids.tolist()
    call, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        call(scene)
    assert (repr(scene), scene[0].name, scene[0].transform.tolist(), scene.ids.tolist()) == before
    assert scene.add(TREE) == 2
