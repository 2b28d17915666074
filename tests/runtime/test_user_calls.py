"""Users' functions called by address: their data, their exceptions, and compilation."""

from __future__ import annotations

import gc
import math
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import bvh
from bvh import kernels
from bvh.runtime.calls import user_calls
from bvh.traversal.rays.closest_hit import closest_hits
from bvh.traversal.rays.one_ray import cast_at_custom
from tests.cases import aims
from tests.cases.soups import soup
from tests.children import answer, fork

N = 400


def tree_and_rays(rng: np.random.Generator) -> tuple[bvh.BVH, np.ndarray, np.ndarray]:
    """Return a tree over a soup, and rays."""
    tree = bvh.BVH.from_triangles(*soup(rng, N, 1.0))
    return tree, *aims.random_rays(*tree.bounds, 500, rng)


def even() -> Any:
    """Return a new filter."""

    @numba.njit
    def accept(ray_id, prim_id, t, u, v, data):
        return prim_id % 2 == 0

    return accept


def plates(intersect: Any, data: Any, n: int = 3) -> bvh.BVH:
    """Return a tree over unit squares at z = 0, 1, ..., with a test of one's own."""
    z = np.arange(n)[:, None]
    low = np.hstack([np.zeros((n, 2)), z])
    return bvh.BVH.from_custom(low, low + [1, 1, 0], intersect, data)


def new_plate() -> Any:
    """Return a new test of a ray with the plates of `plates`."""

    @numba.njit
    def plate(prim_id, origin, direction, t_min, t_max, heights):
        if heights[prim_id] < 0.0:
            raise ValueError("a plate below the floor")
        return (heights[prim_id] - origin[2]) / direction[2], 0, np.float32(0.5)

    return plate


DOWN = [0.5, 0.5, 9.0], [0.0, 0.0, -1.0]


class Settings(NamedTuple):
    """Data with names."""

    scale: Any
    phase: Any
    rest: Any


@numba.njit
def twice(x):
    return 2 * x


@numba.njit
def write_all(ray_id, prim_id, t, u, v, data):
    """Write down what has arrived."""
    matrix, steps, flat, settings, flag, nothing, none_at_all, function, seen = data
    seen[0] = matrix[1, 2]
    seen[1] = steps[2] + 10 * len(steps)
    seen[2] = flat[()] + settings.scale
    seen[3] = (settings.phase * settings.phase).real
    seen[4] = settings.rest[0].shape[1] + 100 * settings.rest[1]
    seen[5] = flag and nothing is None and len(none_at_all) == 0
    seen[6] = function(prim_id + 21)
    seen[7] = matrix.T[0, 1] + matrix.size
    return True


def test_data_of_many_types() -> None:
    """Numbers, arrays of any layout, tuples in tuples, functions: all arrives as it was."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    seen = np.zeros(8)
    rest = np.zeros((2, 7, 1), np.uint8)[:, ::2], np.uint16(3)
    for order in "CF":
        matrix = np.arange(6.0).reshape(2, 3, order=order)
        matrix[1, 0], matrix[1, 2] = 40.0, 5.0
        matrix.flags.writeable = order == "C"
        data = (
            matrix, np.arange(10, dtype=np.int8)[::-3], np.array(2.5),
            Settings(np.float32(0.25), 3 + 4j, rest), True, None, (), twice, seen,
        )  # fmt: skip
        assert tree.any_hit([1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], filter=write_all, data=data)
        assert seen.tolist() == [5.0, 43.0, 2.75, -7.0, 304.0, 1.0, 42.0, 46.0]


def test_one_ray_gets_what_a_batch_gets() -> None:
    tree = plates(new_plate(), np.arange(3.0))
    for _ in range(2):
        one, (o, d) = tree.all_hits(*DOWN), (np.array([row]) for row in DOWN)
        assert one.t.tolist() == tree.all_hits(o, d).t.tolist() and len(one) == 3
        assert tree.count_hits(*DOWN) == tree.count_hits(o, d)[0] == 3


def test_nothing_but_the_function_is_compiled(rng: np.random.Generator) -> None:
    """A new function, and data of another type, take the same traversal."""
    tree, o, d = tree_and_rays(rng)
    hits = tree.closest_hit(o, d, filter=even())
    assert hits.mask.any()
    assert plates(new_plate(), np.arange(3.0)).closest_hit(*DOWN).t == 7.0
    compiled = len(closest_hits.specialisations), len(cast_at_custom.specialisations)
    for data in (1, np.ones(1), (1, 2.0)):
        again = tree.closest_hit(o, d, filter=even(), data=data)
        assert np.array_equal(again.t, hits.t) and np.array_equal(again.prim_id, hits.prim_id)
    for data in (np.arange(3), np.arange(3, dtype=np.float32)):
        assert plates(new_plate(), data).closest_hit(*DOWN).t == 7.0
    assert compiled == (len(closest_hits.specialisations), len(cast_at_custom.specialisations))
    # And that only once.
    function, misses = even(), user_calls._compiled.cache_info().misses
    for _ in range(3):
        tree.closest_hit(o, d, filter=function)
    assert user_calls._compiled.cache_info().misses == misses + 1
    assert user_calls._compiled.cache_info().maxsize == user_calls.MAX_COMPILED


FRESH = """
import json, numba, numpy as np, bvh
from bvh.traversal.rays.closest_hit import closest_hits

@numba.njit
def accept(ray_id, prim_id, t, u, v, data):
    return data

@numba.njit
def plate(prim_id, origin, direction, t_min, t_max, data):
    return (data - origin[2]) / direction[2], 0.0, 0.0

o, d = np.array([[0.1, 0.2, 5.0]] * 2), np.array([0.0, 0.0, -1.0])
tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
own = bvh.BVH.from_custom([[0, 0, 1]], [[1, 1, 1]], plate, 1.0)
t = tree.closest_hit(o, d, filter=accept, data=True).t.tolist() + own.closest_hit(o, d).t.tolist()
hit = bool(tree.any_hit(o, d, filter=accept, data=False).any())
compiled = sum(sum(s.compiled.stats.cache_misses.values()) for s in closest_hits.specialisations)
print(json.dumps({"t": t, "hit": hit, "compiled": compiled}))
"""


def test_the_traversal_comes_from_the_cache() -> None:
    """In the next process, too."""
    answers = [answer(fork(FRESH)) for _ in range(2)]
    assert answers[1] == answers[0] | {"compiled": 0}
    assert answers[1] == {"t": [5.0, 5.0, 4.0, 4.0], "hit": False, "compiled": 0}


def test_what_a_test_raises_arrives(rng: np.random.Generator) -> None:
    """From every query, on every thread; afterwards the tree answers on."""
    heights = np.arange(3.0)
    tree = plates(new_plate(), heights)
    o, d = np.tile(DOWN[0], (5_000, 1)), DOWN[1]
    for value in (-1.0, 2.0):
        heights[2] = value
        for ask in (tree.caster(), lambda *_: tree.closest_hit(o, d, threads=2)):
            if value < 0.0:
                with pytest.raises(ValueError, match="a plate below the floor"):
                    ask(*DOWN[0], *d)
            else:
                ask(*DOWN[0], *d)


def test_functions_of_all_kinds(rng: np.random.Generator) -> None:
    """With any options of numba.njit, called before or not."""
    tree, o, d = tree_and_rays(rng)
    some = rng.random(N) < 0.5
    wanted = tree.closest_hit(o, d, filter=numba.njit(lambda r, p, t, u, v, data: data[p]),
                              data=some)  # fmt: skip

    def accept(ray_id, prim_id, t, u, v, data):
        return data[prim_id]

    number, real, flags = numba.int64, numba.float64, numba.types.Array(numba.bool_, 1, "A")
    signature = numba.bool_(number, number, real, real, real, flags)
    fast = numba.njit(fastmath=True, inline="always", boundscheck=True, nogil=True)(accept)
    checked = numba.njit(error_model="python")(accept)
    assert checked(0, 0, 0.0, 0.0, 0.0, some) == some[0]
    for function in (fast, checked, numba.njit(signature)(accept), numba.njit(cache=False)(accept)):
        hits = tree.closest_hit(o, d, filter=function, data=some)
        assert np.array_equal(hits.t, wanted.t) and np.array_equal(hits.prim_id, wanted.prim_id)

    @numba.njit(error_model="python")
    def divides(ray_id, prim_id, t, u, v, data):
        return 1.0 / data > 0.0

    with pytest.raises(ZeroDivisionError):
        tree.closest_hit(o, d, filter=divides, data=0.0)


@pytest.mark.long
def test_queries_within_a_filter(rng: np.random.Generator) -> None:
    """A tree is data, too; one of a user's primitives brings its test along."""

    @numba.njit
    def is_shaded(ray_id, prim_id, t, u, v, arrays):
        return kernels.any_hit(arrays, (0.5, 0.5, 9.0 - t), (0.0, 0.0, 1.0), 1e-9)

    tree = plates(new_plate(), np.arange(3.0))
    mesh = bvh.BVH.from_triangles(
        [[0, 0, 1], [4, 0, 1], [0, 4, 1], [0, 0, 7], [4, 0, 7], [0, 4, 7]], [[0, 1, 2], [3, 4, 5]]
    )
    assert mesh.closest_hit(*DOWN, filter=is_shaded, data=tree.arrays).t == 8.0
    assert tree.closest_hit(*DOWN, filter=is_shaded, data=mesh.arrays).t == 7.0


def test_threads_with_functions_of_their_own(rng: np.random.Generator) -> None:
    tree, o, d = tree_and_rays(rng)
    wanted = tree.closest_hit(o, d, filter=even()).t

    def work(i: int) -> bool:
        function = even()
        return all(
            np.array_equal(tree.closest_hit(o, d, filter=function, threads=2).t, wanted)
            for _ in range(3)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(6)))


def test_what_is_called_stays_alive() -> None:
    """A tree keeps the test and its data, and a caster its tree; a copy has its own."""
    cast = plates(new_plate(), np.arange(3.0)).caster()
    copied = pickle.loads(pickle.dumps(plates(new_plate(), np.arange(3.0))))
    for _ in range(3):
        gc.collect()
        rubbish = [np.full(3, -1.0) for _ in range(1_000)]
        user_calls._compiled.cache_clear()
        assert cast(*DOWN[0], *DOWN[1])[0] == 7.0
        assert copied.closest_hit(*DOWN).t == 7.0
        del rubbish


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_them() -> None:
    """Those that the parent has compiled, and those that it has not."""
    context = multiprocessing.get_context("fork")
    known, new = (plates(new_plate(), np.arange(3.0)) for _ in range(2))
    assert known.closest_hit(*DOWN).t == 7.0
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        sender.send([tree.closest_hit(*DOWN).t for tree in (known, new)])

    process = context.Process(target=child)
    process.start()
    try:
        assert receiver.poll(60) and receiver.recv() == [7.0, 7.0]
    finally:
        process.kill()
        process.join()


@numba.njit
def heights_seen(arrays):
    """Ask for a hit in one's own loop."""
    t, prim_id, u, v, front = kernels.closest_hit(arrays, (0.5, 0.5, 9.0), (0.0, 0.0, -1.0))
    return t, prim_id, u, v, front, kernels.any_hit(arrays, (0.5, 0.5, 9.0), (0.0, 0.0, 1.0))


@pytest.mark.long
def test_ones_own_loop_over_ones_own_primitives() -> None:
    tree = plates(new_plate(), np.arange(3.0))
    assert heights_seen(tree.arrays) == (7.0, 2, 0.0, 0.5, True, False)
    assert math.isinf(heights_seen(plates(new_plate(), np.arange(3.0), 0).arrays)[0])
