"""A program in C gets the package's bits from linked kernels."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest

import bvh
from bvh.runtime.arguments import cull_code
from bvh.runtime.simd import WIDTH
from bvh.traversal.rays import ray_batch
from bvh.traversal.rays.blocks import BLOCK
from bvh.tree import collapse, rows, triangle_groups, wide_nodes
from bvh.tree.builders import binned_sah, records, subtrees
from bvh.tree.builders import bins as binning
from tests.cases.families import families

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
MACROS = {
    "WIDTH": WIDTH, "BLOCK": BLOCK, "RECORD": records.WIDTH, "RANGE_WIDTH": subtrees.RANGE_WIDTH,
    "END": subtrees.END, "LIMIT": subtrees.LIMIT, "BINS": binning.BINS,
    "GROUP_BITS": binning.GROUP_BITS, "MAX_LEAF": binned_sah.MAX_LEAF,
    "DEEPEST": collapse.DEEPEST, "TASK_WIDTH": collapse.TASK_WIDTH, "NEXT": collapse.NEXT,
    "BELOW": collapse.BELOW, "NODE_SIZE": wide_nodes.NODE_SIZE,
    "GROUP_SIZE": triangle_groups.GROUP_SIZE, "ROW_SIZE": rows.SIZE, "NODES": rows.NODES,
    "IDS": rows.IDS, "IDS_ROW": triangle_groups.IDS, "GROUPS": rows.GROUPS, "FRAME": rows.FRAME,
    "POINTS": rows.POINTS, "FACES": rows.FACES, "SINGLES": ray_batch.SINGLES,
    "NEVER": ray_batch.NEVER,
    "DEEPEST_LEVEL(n)": "((int64_t)floor(2 * log2(n)) + 8)",
}  # fmt: skip


def test_header_is_up_to_date(library: Path) -> None:
    """The header in the package is that of the kernels."""
    made = (library / "bvh.h").read_text()
    assert (Path(bvh.__file__).parent / "include" / "bvh.h").read_text() == made


def test_c_builds_and_casts(compiler: str, library: Path, tmp_path: Path) -> None:
    """Trees built and hostile families cast by kernels that C calls, bit for bit."""
    program = tmp_path / "rays"
    source, kernels = HERE / "rays.c", library / "kernels.o"
    options = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{library}"]
    macros = [f"-D{name}={value}" for name, value in MACROS.items()]
    command = [compiler, *options, *macros, "-o", program, source, kernels, "-lm"]
    subprocess.run(list(map(str, command)), check=True)

    cases = [case for case in families().values() if len(case.faces) < subtrees.SMALLEST_TASK]
    given, wanted = [], []
    for case in cases:
        n = len(case.origins)
        head = len(case.vertices), len(case.faces), n, cull_code(case.cull)
        ends = (np.broadcast_to(np.asarray(end, float), n) for end in (case.t_min, case.t_max))
        arrays = case.vertices, case.faces.astype(np.int32), case.origins, case.directions, *ends
        given += [np.array(head, np.int64), *arrays]
        with warnings.catch_warnings(action="ignore", category=bvh.BVHWarning):
            tree = bvh.BVH.from_triangles(case.vertices, case.faces)
        hits = tree.closest_hit(
            case.origins, case.directions, case.t_min, case.t_max, cull=case.cull, threads=1
        )
        wanted.append(hits)
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in given)
    output = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True).stdout
    assert len(cases) > 50
    for name, hits in zip(families(), wanted, strict=False):
        for column in (hits.t, hits.prim_id, hits.u, hits.v, hits.front):
            expected = np.ascontiguousarray(column).tobytes()
            assert output.startswith(expected), name
            output = output[len(expected) :]
    assert not output
