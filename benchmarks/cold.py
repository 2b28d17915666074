"""First calls: each verb in a fresh process, on an empty or a filled kernel cache.

All are asked of a cube from 0 to 1, whose answers are known without a tree. Times are CPU seconds,
but for the wait. This file imports little: a process that runs it measures what bvh imports.
"""

from __future__ import annotations

import importlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .processes import Row, answer_parent, stream
from .timing import clocks, foreign_share

# A smaller change is the machine's, even of CPU seconds.
NOISE = 0.1
# Times that each triangle of the cube is cut in four, cells along an edge, triangles of a side.
CUTS = 5
CELLS, SIDE = 2**CUTS, 2 * 4**CUTS
RAYS = 2000


class Verb(NamedTuple):
    """Query whose first call is measured."""

    # Given a kit, makes the query and returns whether the answer is right.
    call: Callable[[Any], Any]
    # What is queried: a tree, a scene, or nothing.
    content: str = "tree"
    # The verb that an earlier process has asked, which filled the cache: what is compiled for this
    # one beyond it, such as functions of users.
    after: str = ""


class Kit:
    """Cube, inputs of queries, and the tree or scene of the cube."""

    def __init__(self, content: str) -> None:
        import numpy as np

        rng = np.random.default_rng(5)
        self.np, (self.vertices, self.faces) = np, cube()
        # Rays down from 3, points above and inside; on no edge of a cell.
        across = (rng.integers(0, CELLS, (RAYS, 2)) + [0.3, 0.6]) / CELLS
        origins, self.above, self.inside = (
            np.hstack([across, np.full((RAYS, 1), z)]) for z in (3.0, 1.5, 1 - 2.0**-10)
        )
        self.rays = origins, np.tile([0.0, 0.0, -1.0], (RAYS, 1))
        self.tree: Any = self.content(content) if content else None

    def content(self, name: str) -> Any:
        """Return a tree of the cube if `name` is "tree", else a scene of two cubes."""
        import bvh

        if name == "tree":
            return bvh.BVH.from_triangles(self.vertices, self.faces)
        scene, far = bvh.Scene(), self.np.diag([2.0, 2.0, 2.0, 1.0])
        far[0, 3] = 5.0
        scene.add((self.vertices, self.faces))
        scene.add((self.vertices, self.faces), transform=far)
        return scene


def cube() -> Any:
    """Return the vertices and faces of the cube, oriented outwards; the upper side is the last."""
    import numpy as np

    from .scenes import subdivided

    vertices = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    quads = [[0, 2, 6, 4], [0, 4, 5, 1], [2, 3, 7, 6], [0, 1, 3, 2], [4, 6, 7, 5], [1, 5, 7, 3]]
    faces = np.array(quads)[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    for _ in range(CUTS):
        vertices, faces = subdivided(vertices, faces)
    return vertices, faces


def lower_side(kit: Kit) -> Any:
    """Ask with a filter that is new in each process: it keeps hits on the lower side."""
    import numba

    least = 2.1 + 0.8 * random.random()

    @numba.njit
    def below(ray_id: Any, prim_id: Any, t: Any, u: Any, v: Any, data: Any) -> Any:
        return t > least

    return (kit.tree.closest_hit(*kit.rays, filter=below).t == 3.0).all()


def upper_side(kit: Kit) -> Any:
    """Ask for the upper side from above."""
    hits = kit.tree.closest_hit(*kit.rays)
    return (hits.t == 2.0).all() and (hits.prim_id // SIDE == 5).all()


def one_ray(kit: Kit) -> Any:
    """Ask for the upper side with one ray."""
    return kit.tree.closest_hit(*(array[0] for array in kit.rays)).t == 2.0


def with_tree(kit: Kit) -> Kit:
    """Build the tree as a part of the call."""
    kit.tree = kit.content("tree")
    return kit


def camera() -> Any:
    """Return a camera above the middle of the upper side."""
    import bvh

    return bvh.Camera.look_at([0.5, 0.5, 3], [0.5, 0.5, 0], [0, 1, 0], 40, 640, 480)


def lasso(kit: Kit) -> Any:
    """Select with a lasso around the middle of the upper side."""
    return len(kit.tree.pick_lasso(camera(), [[280, 200], [360, 200], [320, 280]]).ids) > 0


def pick(kit: Kit, **options: Any) -> Any:
    """Pick the middle of the upper side with a cursor."""
    found = kit.tree.pick(camera(), 321.3, 239.2, **options)
    return found is not None and found.prim_id // SIDE == 5


def overlap(kit: Kit) -> Any:
    """Ask for the faces that a large triangle intersects, half way up."""
    import bvh

    # In the middle of a row of cells.
    z = 0.5 + 0.5 / CELLS
    cut = bvh.BVH.from_triangles([[-9, -9, z], [9, -9, z], [0, 18, z]], [[0, 1, 2]])
    return len(kit.tree.overlap_tree(cut)) == 4 * 2 * CELLS


VERBS: dict[str, Verb] = {
    "import": Verb(lambda kit: True, ""),
    "build": Verb(lambda kit: len(kit.content("tree")) == 6 * SIDE, ""),
    "closest_hit": Verb(upper_side),
    "one ray": Verb(lambda kit: one_ray(kit)),
    "any_hit": Verb(lambda kit: kit.tree.any_hit(*kit.rays).all()),
    "all_hits": Verb(
        lambda kit: (kit.tree.all_hits(*kit.rays).t.reshape(-1, 2) == [2.0, 3.0]).all()
    ),
    "closest_point": Verb(lambda kit: (kit.tree.closest_point(kit.above).distance == 0.5).all()),
    "signed_distance": Verb(
        lambda kit: (kit.tree.signed_distance(kit.inside) == -(2.0**-10)).all()
    ),
    "contains": Verb(
        lambda kit: kit.tree.contains(kit.inside).all() and not kit.tree.contains(kit.above).any()
    ),
    "overlap_tree": Verb(overlap),
    "Scene.closest_hit": Verb(upper_side, "scene"),
    "Scene.pick": Verb(pick, "scene"),
    "new filter": Verb(lower_side, after="new filter"),
    "build and closest_hit": Verb(lambda kit: upper_side(with_tree(kit)), ""),
    "build and one ray": Verb(lambda kit: one_ray(with_tree(kit)), ""),
    "then counters": Verb(
        lambda kit: (kit.tree.closest_hit(*kit.rays, counters=True).t == 2.0).all(),
        after="closest_hit",
    ),
    "then a filter": Verb(lower_side, after="closest_hit"),
    "then all_hits": Verb(
        lambda kit: (kit.tree.all_hits(*kit.rays).t.reshape(-1, 2) == [2.0, 3.0]).all(),
        after="closest_hit",
    ),
    "then closest_point": Verb(
        lambda kit: (kit.tree.closest_point(kit.above).distance == 0.5).all(), after="closest_hit"
    ),
    "then signed_distance": Verb(
        lambda kit: (kit.tree.signed_distance(kit.inside) == -(2.0**-10)).all(), after="closest_hit"
    ),
    "then pick_lasso": Verb(lasso, "scene", after="Scene.closest_hit"),
    "then pick(radius=)": Verb(lambda kit: pick(kit, radius=4), "scene", after="Scene.closest_hit"),
}

# Commands, which are processes themselves.
COMMANDS = ("README's command", "bvh warmup")


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the CPU seconds of a verb: of its import, its build and its first call."""
    name, before = options["verb"], clocks()
    parts = _command(name) if name in COMMANDS else _steps(name)
    yield {
        "what": name, "threads": options["threads"], "foreign": foreign_share(before, clocks()),
        "table": "CPU seconds of first calls", "unit": "call", "count": 1, "parts": parts,
        "seconds": {"bvh": [sum(parts.get(part, 0.0) for part in ("import", "build", "call"))]},
    }  # fmt: skip


def _steps(name: str) -> dict[str, float]:
    verb, clock = VERBS[name], time.process_time
    began = clock()
    importlib.import_module("numba")
    libraries = clock()
    import bvh

    assert bvh.Scene if verb.content == "scene" else bvh.BVH
    imported = clock()
    kit = Kit(verb.content)
    built = clock()
    wall, asked = time.perf_counter(), clock()
    answer = verb.call(kit)
    done, waited = clock(), time.perf_counter() - wall
    checked(name, answer)
    return {
        "libraries": libraries - began, "import": imported - libraries,
        "build": built - imported, "call": done - asked, "wait": waited,
    }  # fmt: skip


def checked(name: str, answer: Any) -> None:
    """Raise SystemExit for a wrong answer."""
    if not answer:
        raise SystemExit(f"the answer of {name} is wrong")


def _command(name: str) -> dict[str, float]:
    """Return the CPU seconds and the wait of a command."""
    with tempfile.TemporaryDirectory() as folder:
        mesh, picture = Path(folder, "organic.ply"), Path(folder, "picture.png")
        command = ["warmup"]
        if name != "bvh warmup":
            scenes = f"{__package__}.scenes"
            _python(f"from {scenes} import load; import trimesh; m = load('organic'); "
                    f"trimesh.Trimesh(m.vertices, m.faces).export({str(mesh)!r})")  # fmt: skip
            command = ["render", str(mesh), "-o", str(picture), "--shade", "clay"]
        before, began = os.times(), time.perf_counter()
        _python("from bvh.__main__ import main; main()", *command)
        waited, after = time.perf_counter() - began, os.times()
        seconds = sum(after[2:4]) - sum(before[2:4])
        # A picture of one colour is a few hundred bytes.
        checked(name, name == "bvh warmup" or picture.stat().st_size > 10_000)
    return {"call": seconds, "wait": waited}


def _python(code: str, *arguments: str) -> None:
    command = [sys.executable, "-P", "-c", code, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def rows(verbs: list[str] | None, warm: bool, threads: int) -> Iterator[Row]:
    """Yield the row of each verb, all of them by default."""
    with tempfile.TemporaryDirectory() as bytecode:
        # Python's own compilation is done once, as pip does it.
        _row("import", False, threads, bytecode)
        for verb in verbs or [*VERBS, *COMMANDS]:
            yield _row(verb, warm, threads, bytecode)


def _row(verb: str, warm: bool, threads: int, bytecode: str) -> Row:
    """Measure a verb: its steps, and what is kept on disk."""
    asked = VERBS.get(verb, Verb(lambda kit: True))
    before = verb if warm else asked.after
    with tempfile.TemporaryDirectory() as cache:
        # An import is measured as it is of an installed package.
        settings = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        settings |= {"BVH_CACHE_DIR": cache}
        for name in filter(None, (before, verb)):
            (row,) = stream("cold", {"verb": name}, threads, **settings)
        files = [path for path in Path(cache).rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if path.suffix != ".lock")
    kernels = [path for path in files if path.name.startswith("bvh.")]
    row["parts"] |= {"kernels": len(kernels), "MB kept": size / 1e6}
    return {**row, "mesh": f"{'filled' if warm else 'empty'} cache", "noise": NOISE}


if __name__ == "__main__":
    answer_parent(measure)
