"""The first call of each verb, in a process that has loaded nothing: what `benchmarks.cold` starts.

All are asked of a cube from 0 to 1, whose answers are known without a tree.
"""

from __future__ import annotations

import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .compile_times import CompileTimes
from .processes import Row, answer_parent
from .timing import clocks, foreign_share

# Cells along an edge of the cube; odd, so that a plane through the middle is in a row of cells.
CELLS = 21
SIDE = 2 * CELLS**2
RAYS = 2000


class Verb(NamedTuple):
    """A question, asked for the first time.

    Attributes
    ----------
    call : callable
        Given the names below, asks and returns what `checked` wants to be true.
    content : str
        What is asked: a tree, a scene, or nothing.
    before : str
        What is asked before the clock starts, in the same process.
    filled : bool
        Whether a process before this one has asked the same and filled the cache; what is
        compiled is then of this process, as functions of users are.
    """

    call: Callable[[Any], Any]
    content: str = "tree"
    before: str = ""
    filled: bool = False


class Kit:
    """The cube, what is asked of it, and the tree or scene of it."""

    def __init__(self, content: str) -> None:
        import numpy as np

        rng = np.random.default_rng(5)
        self.np, self.vertices, self.faces = np, *cube(np)
        # Rays down from 3, points above and inside; on no edge of a cell.
        across = (rng.integers(0, CELLS, (RAYS, 2)) + [0.3, 0.6]) / CELLS
        self.origins = np.hstack([across, np.full((RAYS, 1), 3.0)])
        self.directions = np.tile([0.0, 0.0, -1.0], (RAYS, 1))
        self.above = np.hstack([across, np.full((RAYS, 1), 1.5)])
        self.inside = np.hstack([across, np.full((RAYS, 1), 1 - 2.0**-10)])
        self.content: Any = getattr(self, f"make_{content}")() if content else None

    def make_tree(self) -> Any:
        """Return the cube's tree."""
        import bvh

        return bvh.BVH.from_triangles(self.vertices, self.faces)

    def make_scene(self) -> Any:
        """Return a scene of the cube and of another, twice as large, beside it."""
        import bvh

        scene = bvh.Scene()
        scene.add((self.vertices, self.faces))
        far = self.np.diag([2.0, 2.0, 2.0, 1.0])
        far[0, 3] = 5.0
        scene.add((self.vertices, self.faces), transform=far)
        return scene

    def make_custom(self) -> Any:
        """Return a tree over a disc that a function of this process tests."""
        import bvh

        return bvh.BVH.from_custom([[0, 0, 1]], [[1, 1, 1]], disc(), self.np.array([0.4]))


def cube(np: Any) -> Any:
    """Return vertices and faces of the cube, looking outwards; sides do not share vertices."""
    line = np.arange(CELLS + 1) / CELLS
    u, v = (x.ravel() for x in np.meshgrid(line, line, indexing="ij"))
    corner = np.arange(CELLS)[:, None] * (CELLS + 1) + np.arange(CELLS)
    a, b = corner.ravel(), corner.ravel() + CELLS + 1
    grid = np.vstack([np.stack([a, b, b + 1], 1), np.stack([a, b + 1, a + 1], 1)])
    vertices, faces = [], []
    for axis in range(3):
        for at in (0.0, 1.0):
            side = np.empty((len(u), 3))
            side[:, axis], side[:, axis - 2], side[:, axis - 1] = at, u, v
            faces.append((grid if at else grid[:, ::-1]) + len(u) * len(vertices))
            vertices.append(side)
    return np.vstack(vertices), np.vstack(faces)


def disc() -> Any:
    """Return the test of a disc on the cube's upper side, which no process has seen before."""
    import numba

    more = 1e-12 * random.random()

    @numba.njit
    def test(prim_id: Any, origin: Any, direction: Any, t_min: Any, t_max: Any, radii: Any) -> Any:
        t = (1.0 - origin[2]) / direction[2]
        x, y = origin[0] + t * direction[0] - 0.5, origin[1] + t * direction[1] - 0.5
        return (t, x, y) if x * x + y * y <= radii[prim_id] ** 2 + more else (math.inf, x, y)

    return test


def lower_side(kit: Kit) -> Any:
    """Ask through a filter that has not been seen before: it keeps what is below."""
    import numba

    least = 2.1 + 0.8 * random.random()

    @numba.njit
    def below(ray_id: Any, prim_id: Any, t: Any, u: Any, v: Any, data: Any) -> Any:
        return t > least

    hits = kit.content.closest_hit(kit.origins, kit.directions, filter=below)
    return (hits.t == 3.0).all()


def build(kit: Kit) -> Any:
    """Build, and ask nothing."""
    tree = kit.make_tree()
    return len(tree) == 6 * SIDE and (tree.bounds == [[0, 0, 0], [1, 1, 1]]).all()


def closest(kit: Kit) -> Any:
    """Ask for the upper side from above."""
    hits = kit.content.closest_hit(kit.origins, kit.directions)
    return (hits.t == 2.0).all() and (hits.prim_id // SIDE == 5).all()


def pick(kit: Kit) -> Any:
    """Pick the middle of the upper side with a cursor."""
    import bvh

    camera = bvh.Camera.look_at([0.5, 0.5, 3], [0.5, 0.5, 0], [0, 1, 0], 40, 640, 480)
    found = kit.content.pick(camera, 321.3, 239.2)
    return found is not None and found.prim_id // SIDE == 5


def custom(kit: Kit) -> Any:
    """Ask for a disc."""
    np, o = kit.np, kit.origins
    hits = kit.content.closest_hit(o, kit.directions)
    return np.array_equal(hits.mask, np.hypot(o[:, 0] - 0.5, o[:, 1] - 0.5) <= 0.4)


def overlap(kit: Kit) -> Any:
    """Ask for the faces that a large triangle meets half way up."""
    import bvh

    cut = bvh.BVH.from_triangles([[-9, -9, 0.5], [9, -9, 0.5], [0, 18, 0.5]], [[0, 1, 2]])
    return len(kit.content.overlap_tree(cut)) == 4 * 2 * CELLS


def all_hits(kit: Kit) -> Any:
    """Ask for the upper and the lower side."""
    found = kit.content.all_hits(kit.origins, kit.directions)
    return (found.t.reshape(-1, 2) == [2.0, 3.0]).all()


VERBS: dict[str, Verb] = {
    "import": Verb(lambda kit: True, ""),
    "build": Verb(build, ""),
    "closest_hit": Verb(closest),
    "one ray": Verb(lambda kit: kit.content.closest_hit(kit.origins[0], [0, 0, -1]).t == 2.0),
    "any_hit": Verb(lambda kit: kit.content.any_hit(kit.origins, kit.directions).all()),
    "any_hit after closest_hit": Verb(
        lambda kit: kit.content.any_hit(kit.origins, kit.directions).all(), before="closest_hit"
    ),
    "all_hits": Verb(all_hits),
    "closest_point": Verb(lambda kit: (kit.content.closest_point(kit.above).distance == 0.5).all()),
    "signed_distance": Verb(
        lambda kit: (kit.content.signed_distance(kit.inside) == -(2.0**-10)).all()
    ),
    "contains": Verb(
        lambda kit: (
            kit.content.contains(kit.inside).all() and not kit.content.contains(kit.above).any()
        )
    ),
    "overlap_tree": Verb(overlap),
    "Scene.closest_hit": Verb(closest, "scene"),
    "Scene.pick": Verb(pick, "scene"),
    "new filter": Verb(lower_side, filled=True),
    "new custom test": Verb(custom, "custom", filled=True),
}

# Commands, which are processes themselves.
COMMANDS = ("README's command", "bvh warmup")


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the CPU seconds of one verb's steps: what it imports, builds and asks."""
    name, before = options["verb"], clocks()
    figures = _command(name) if name in COMMANDS else _steps(name)
    foreign = foreign_share(before, clocks())
    yield {"what": name, "threads": options["threads"], "foreign": foreign, **figures}


def _steps(name: str) -> Row:
    verb, clock = VERBS[name], time.process_time
    began, times = clock(), CompileTimes()
    # Numba is imported by it.
    times.start()
    libraries = clock()
    import bvh

    assert bvh.Scene if verb.content == "scene" else bvh.BVH
    imported = clock()
    kit = Kit(verb.content)
    built = clock()
    if verb.before:
        checked(verb.before, VERBS[verb.before].call(kit))
    before, wall, asked = times.figures(), time.perf_counter(), clock()
    answer = verb.call(kit)
    done, waited, after = clock(), time.perf_counter() - wall, times.figures()
    checked(name, answer)
    return {
        "libraries": libraries - began, "import": imported - libraries,
        "build": built - imported, "first": done - asked, "wall": waited,
        **{part: after[part] - before[part] for part in after},
    }  # fmt: skip


def checked(name: str, answer: Any) -> None:
    """Refuse to time what answers wrongly."""
    if not answer:
        raise SystemExit(f"the answer of {name} is wrong: no time is worth telling")


def _command(name: str) -> Row:
    """Return the CPU seconds and the wait of a command."""
    program = [sys.executable, "-P", "-c", "from bvh.__main__ import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        mesh, picture = Path(folder, "organic.ply"), Path(folder, "picture.png")
        if name == "bvh warmup":
            command = [*program, "warmup"]
        else:
            _write_mesh(mesh)
            command = [*program, "render", str(mesh), "-o", str(picture), "--shade", "clay"]
        before, began = _children(), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        waited, spent = time.perf_counter() - began, _children() - before
        checked(name, name == "bvh warmup" or _shows_something(picture))
    return {"first": spent, "wall": waited}


def _write_mesh(path: Path) -> None:
    """Make the mesh that README's command renders, in a process of its own: it costs no time."""
    code = f"from {__package__}.scenes import load; import trimesh; m = load('organic'); "
    code += f"trimesh.Trimesh(m.vertices, m.faces, process=False).export({str(path)!r})"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def _shows_something(path: Path) -> bool:
    from PIL import Image

    colours = Image.open(path).convert("RGB").getcolors(1 << 24) or ()
    return len(colours) > 100


def _children() -> float:
    """Return the CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    answer_parent(measure)
