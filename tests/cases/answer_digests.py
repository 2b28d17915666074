"""Digests of the answers to every query, to be compared between CPUs, widths and systems.

    python -m tests.cases.answer_digests questions FILE        hostile meshes, rays, boxes, pairs
    python -m tests.cases.answer_digests answers FILE DIGESTS  what they answer here, as JSON
    python -m tests.cases.answer_digests core FILE DIGESTS     only queries of CORE
    python -m tests.cases.answer_digests compare DIGESTS...    which differ; exits with 1 if any do

The questions are numbers in a file, because numpy's random numbers and sines need not have the
same last bits elsewhere; so each machine is asked the same.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import warnings
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bvh
from tests.cases.aims import features
from tests.cases.box_families import BOX_FAMILIES, build_boxes
from tests.cases.contact_pairs import KINDS, SCALES, pairs_of
from tests.cases.families import FAMILIES, build
from tests.cases.family_parts import rng_of, rotation

Question = dict[str, Any]
Digests = dict[str, dict[str, str]]

# Most answers to boxes are those of their ray tests.
FEW = 12
# A query for each traversal whose code depends on the width of vectors: of the kernels that differ
# from these in a goal, a kind of primitive or a result, the vectors are the same.
CORE = {
    "closest_hit", "one ray", "any_hit", "all_hits closed", "closest_point", "overlap_box",
    "overlap_tree", "distance_to", "refit", "scene closest_hit", "scene one ray",
    "scene all_hits closed", "scene closest_point", "scene overlap_box",
}  # fmt: skip


def questions(seed: int = 0) -> dict[str, Question]:
    """Return the inputs of all questions, by name."""
    made: dict[str, Question] = {}
    for name in FAMILIES:
        rng, family = rng_of(name, seed), asdict(build(name, seed))
        with np.errstate(all="ignore"):
            corners = features(family["vertices"], family["faces"], rng)[:40]
        near = corners[: len(corners) // 2] * (1.0 + 1e-3 * rng.normal(size=(len(corners) // 2, 3)))
        points = np.concatenate([corners, near, family["origins"][:20]])
        turn = np.eye(4)
        turn[:3, :3] = rotation(rng)
        made[f"mesh {name}"] = {**family, "points": points, "turn": turn}
    for name in BOX_FAMILIES:
        rng, boxes = rng_of(name, seed), asdict(build_boxes(name, seed))
        turns = np.tile(np.eye(4), (len(boxes["lower"]), 1, 1))
        for turn in turns:
            turn[:3, :3] = rotation(rng)
        made[f"boxes {name}"] = {**boxes, "turns": turns}
    for kind, scale in product(KINDS, SCALES):
        a, b = pairs_of(kind, scale, 60, rng_of(kind, seed))
        made[f"pairs {kind}, {scale}"] = {"a": a, "b": b}
    return made


def answered(question: Question, only: Container[str] | None = None) -> dict[str, str]:
    """Return the digest of each query's answer to a question, or of those in `only`."""
    kind = of_boxes if "turns" in question else of_pairs if "a" in question else of_mesh
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        # Of meshes with open edges, and of what overflows where that is the question.
        warnings.simplefilter("ignore")
        for name, ask in kind(question):
            if only is not None and name not in only:
                continue
            try:
                found[name] = digest(ask())
            except ValueError as error:
                found[name] = f"refused: {error}"
    return found


Asked = Iterator[tuple[str, Callable[[], Any]]]


def of_mesh(q: Question) -> Asked:
    """Ask a tree of triangles, and a scene with two instances of it."""
    tree = bvh.BVH.from_triangles(q["vertices"], q["faces"])
    rays = q["origins"], q["directions"], q["t_min"], q["t_max"]
    points, turn, cull = q["points"], q["turn"], q["cull"]
    near, far = points[: len(points) // 2], points[-(len(points) // 2) :]
    low, high = np.minimum(near, far), np.maximum(near, far)
    planes = np.concatenate([np.tile(turn[:3, :3], (len(near), 1, 1)), near[:, :, None]], axis=2)
    radii = np.abs(near[:, 0])
    scene = bvh.Scene()
    scene.add(tree)
    scene.add(tree, turn)
    for name, asked in ("", tree), ("scene ", scene):
        yield f"{name}closest_hit", lambda asked=asked: asked.closest_hit(*rays, cull=cull)
        yield (
            f"{name}one ray",
            lambda asked=asked: [
                asked.closest_hit(o, d) for o, d in zip(rays[0][:3], rays[1][:3], strict=True)
            ],
        )
        yield f"{name}any_hit", lambda asked=asked: asked.any_hit(*rays, cull=cull)
        for edges in "closed", "once":
            yield (
                f"{name}all_hits {edges}",
                lambda asked=asked, edges=edges: asked.all_hits(*rays, edges=edges),
            )
        yield f"{name}first hits", lambda asked=asked: asked.all_hits(*rays, max_hits=2)
        yield f"{name}count_hits", lambda asked=asked: asked.count_hits(*rays)
        yield f"{name}closest_point", lambda asked=asked: asked.closest_point(points)
        yield f"{name}nearest faces", lambda asked=asked: asked.closest_point(points, k=3)
        yield f"{name}distance", lambda asked=asked: asked.distance(points)
        yield f"{name}contains", lambda asked=asked: asked.contains(points)
        yield f"{name}signed_distance", lambda asked=asked: asked.signed_distance(points)
        yield f"{name}winding_number", lambda asked=asked: asked.winding_number(points)
        yield f"{name}overlap_box", lambda asked=asked: asked.overlap_box(low, high)
        yield f"{name}overlap_sphere", lambda asked=asked: asked.overlap_sphere(near, radii)
        yield f"{name}overlap_frustum", lambda asked=asked: asked.overlap_frustum(planes)
        yield f"{name}self_overlaps", lambda asked=asked: asked.self_overlaps()
        yield f"{name}visible", lambda asked=asked: asked.visible(near, far)
        yield f"{name}overlap_tree", lambda asked=asked: asked.overlap_tree(tree, turn)
    yield "hit points", lambda: [tree.closest_hit(*rays).position, tree.closest_hit(*rays).normal]
    yield "distance_to", lambda: tree.distance_to(tree, turn)
    yield "clearances", lambda: scene.clearances()
    yield "collisions", lambda: scene.collisions()
    yield "flattened", lambda: scene.flattened()
    corners = [q["vertices"][q["faces"][:FEW, i]] for i in range(3)]
    one_by_one = rays[0][:FEW, None], rays[1][:FEW, None]
    yield "ray_triangle", lambda: bvh.ray_triangle(*one_by_one, *corners)
    yield "ray_sphere", lambda: bvh.ray_sphere(*one_by_one, near[:FEW], radii[:FEW])
    yield "ray_plane", lambda: bvh.ray_plane(*one_by_one, turn[0, :3], near[:FEW, 0])

    def refitted() -> Any:
        moved = bvh.BVH.from_triangles(q["vertices"], q["faces"])
        moved.refit(q["vertices"][:, ::-1] * 1.25)
        return moved.closest_hit(*rays)

    yield "refit", refitted


def of_boxes(q: Question) -> Asked:
    """Ask boxes one by one, a tree of them, and one of the same boxes turned."""
    corners, turns = (q["lower"], q["upper"]), q["turns"]
    few = q["origins"][:FEW, None], q["directions"][:FEW, None]
    rays = q["origins"], q["directions"], q["t_min"], q["t_max"]
    yield "ray_box", lambda: bvh.ray_box(*few, *corners)
    yield "ray_obb", lambda: bvh.ray_obb(*few, *corners, turns)
    if q["ray_box_only"]:
        return
    for name, make in ("", lambda: bvh.BVH.from_boxes(*corners)), (
        "turned ", lambda: bvh.BVH.from_obbs(*corners, turns),
    ):  # fmt: skip
        yield f"{name}closest_hit", lambda make=make: make().closest_hit(*rays)
        yield f"{name}any_hit", lambda make=make: make().any_hit(*rays)
        yield f"{name}all_hits", lambda make=make: make().all_hits(*rays)
    yield "overlap_box", lambda: bvh.BVH.from_boxes(*corners).overlap_box(*corners)


def of_pairs(q: Question) -> Asked:
    """Ask two soups of triangles, whose contacts are hard to decide."""
    soups = [soup.reshape(-1, 3) for soup in (q["a"], q["b"])]
    a, b = (bvh.BVH.from_triangles(s, np.arange(len(s)).reshape(-1, 3)) for s in soups)
    yield "overlap_tree", lambda: a.overlap_tree(b)
    yield "self_overlaps", lambda: a.self_overlaps()
    yield "distance_to", lambda: a.distance_to(b)
    yield "closest_point", lambda: a.closest_point(soups[1])


def digest(answer: Any) -> str:
    """Return a hash of all numbers of an answer, to the last bit: NaN and zero with their signs."""
    found = hashlib.sha256()
    for array in arrays_of(answer):
        found.update(f"{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def arrays_of(answer: Any) -> Iterator[np.ndarray]:
    """Return the arrays of an answer, in a fixed order."""
    if isinstance(answer, list | tuple):
        for part in answer:
            yield from arrays_of(part)
    elif hasattr(answer, "__dataclass_fields__"):
        for name in answer.__dataclass_fields__:
            # Fields that mean nothing are None.
            if not name.startswith("_") and getattr(answer, name) is not None:
                yield from arrays_of(getattr(answer, name))
    elif answer is not None:  # a field without a meaning, as `instance_id` of a tree's hits
        array = np.asarray(answer)
        assert array.dtype != object, type(answer)
        yield array


def differing(runs: list[Digests]) -> tuple[int, list[str]]:
    """Return how many answers several runs have, and the names of those that differ."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for question, answers in run.items():
            for query, told in answers.items():
                found.setdefault(f"{question}: {query}", []).append(told)
    several = {name: told for name, told in found.items() if len(told) > 1}
    return len(several), [name for name, told in several.items() if len({*told}) > 1]


def main() -> None:
    what, file, *out = sys.argv[1:]
    if what == "compare":
        count, wrong = differing([json.loads(Path(name).read_text()) for name in (file, *out)])
        print(*wrong, f"{count} answers of {len(out) + 1} runs, {len(wrong)} differ", sep="\n")
        sys.exit(bool(wrong))
    if what == "questions":
        Path(file).write_bytes(pickle.dumps(questions()))
        return
    asked: dict[str, Question] = pickle.loads(Path(file).read_bytes())
    only = CORE if what == "core" else None
    digests: Digests = {name: answered(question, only) for name, question in asked.items()}
    assert not only or only == {name for answers in digests.values() for name in answers}
    Path(out[0]).write_text(json.dumps(digests, indent=1))
    print(f"{sum(map(len, digests.values()))} answers to {len(digests)} questions")


if __name__ == "__main__":
    main()
