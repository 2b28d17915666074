"""Helpers of kernels that another process has lowered."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.compiler import Flags

from bvh.runtime import jit
from bvh.runtime.compiler import dispatchers
from bvh.runtime.compiler.dispatchers import own_pipelines
from bvh.runtime.compiler.stored_helpers import _identity, _key
from bvh.runtime.jit import kernel, types
from tests.children import answer, fork

lean = pytest.mark.skipif(
    own_pipelines() is None, reason="this version of Numba compiles kernels itself"
)

# A query in a process of its own: how many helpers it lowers, and what it answers.
PROGRAM = """
import json
import numba
import numpy as np
from bvh.queries.hierarchy import BVH
from bvh.runtime.compiler import compilation

lowered = []
lower = compilation.HelperLowering.run_pass
compilation.HelperLowering.run_pass = lambda self, state: (
    lowered.append(state.func_id.func_qualname), lower(self, state))[1]
tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
lowered.clear()
rays = np.zeros((2, 3)), np.ones((2, 3))
options = {options}
if options.get("filter"):
    options["filter"] = numba.njit(lambda ray_id, prim_id, t, u, v, data: t < 1.0)
hits = tree.closest_hit(*rays, **options)
print(json.dumps({{"lowered": lowered, "t": hits.t.tolist(), "prim_id": hits.prim_id.tolist(),
                  "u": hits.u.tolist()}}))
"""


def asked(cache: Path, options: str = "{}") -> dict[str, Any]:
    """Ask in a process of its own; return what was lowered and answered."""
    return answer(fork(PROGRAM.format(options=options), BVH_CACHE_DIR=cache, BVH_KERNELS="off"))


@pytest.mark.long
def test_what_is_stored_is_linked(tmp_path: Path) -> None:
    """Another entry lowers only what is its own, with the same answers; damage is lowered again."""
    first = asked(tmp_path)
    assert len(first["lowered"]) > 100
    for options in ('{"counters": True}', '{"filter": True}'):
        other = asked(tmp_path, options)
        assert 0 < len(other.pop("lowered")) < len(first["lowered"]) / 4
        assert other == {name: first[name] for name in other}
    for path in tmp_path.glob("*/bvh.*closest_hits*"):
        path.unlink()
    files = list(tmp_path.glob("*/helpers.*"))
    assert len(files) > 3
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    again = asked(tmp_path)
    assert len(again.pop("lowered")) >= len(first.pop("lowered")) and again == first


@lean
@pytest.mark.long
def test_what_the_first_process_lowers_is_linked(tmp_path: Path) -> None:
    """The exact tests, by `bvh render` and `bvh cast`."""
    script = "from bvh.__main__ import lower_exact_tests; lower_exact_tests(); print(0)"
    assert answer(fork(script, BVH_CACHE_DIR=tmp_path, BVH_KERNELS="off")) == 0
    lowered = {name.rpartition(".")[2] for name in asked(tmp_path)["lowered"]}
    assert "_resolve_candidates" in lowered
    assert lowered.isdisjoint({"filtered_sides", "side_at", "_exact_side", "distance", "_solve"})


def test_what_helpers_are_known_by() -> None:
    """Code, closed-over values and helpers, and types, but no addresses."""

    def closing(value: object) -> Any:
        return lambda x: (x, value)

    def key(function: Any, *kinds: types.Type) -> str | None:
        return _key(_identity(function), kinds, Flags())

    def abs_of(x: float) -> float:
        return -x if x < 0 else x

    def other_of(x: float) -> float:
        return x if x < 0 else -x

    keys = [
        key(abs_of, types.float64), key(abs_of, types.float32), key(other_of, types.float64),
        key(closing(1), types.float64), key(closing(1.0), types.float64),
        key(closing(np.float32(1)), types.float64), key(closing(2), types.float64),
        key(closing(kernel(abs_of)), types.float64), key(closing(kernel(other_of)), types.float64),
    ]  # fmt: skip
    assert None not in keys and len(set(keys)) == len(keys)
    assert key(closing(2), types.float64) == keys[6]
    # A user's function means nothing to another process.
    assert _identity(closing(object())) is None
    assert key(abs_of, types.Dispatcher(kernel(abs_of).real)) is None


@lean
def test_helpers_whose_functions_are_gone() -> None:
    """Numba forgets a function that is collected; an equal one is compiled all the same."""

    def compiled() -> float:
        @kernel
        def tripled(x):
            return 3.0 * x

        @numba.njit(**jit.OPTIONS | dispatchers.ENTRY)
        def run(x):
            return tripled(x)

        return run(2.0)

    assert compiled() == 6.0
    gc.collect()
    with warnings.catch_warnings(action="error"):
        assert compiled() == 6.0
