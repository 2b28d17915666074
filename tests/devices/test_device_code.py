"""What is compiled for GPUs, functions for users' kernels, and what is imported when."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
import bvh.warp
from bvh.devices import building, calls, instances, rebuilding
from bvh.devices.stages import chain
from bvh.devices.stages.marks import CLOSEST, NEAREST
from tests.oracles.devices import DEVICE, assert_same

ROOT = Path(__file__).parents[2]

wp.set_module_options({"fuse_fp": False, "enable_backward": False})


@wp.kernel
def ask(
    target: bvh.warp.Target,
    origins: wp.array(dtype=wp.vec3d), directions: wp.array(dtype=wp.vec3d),
    t: wp.array(dtype=wp.float64), met: wp.array(dtype=wp.bool), crossed: wp.array(dtype=wp.int32),
    far: wp.array(dtype=wp.float64),
):  # fmt: skip
    i = wp.tid()
    o, d = origins[i], directions[i]
    near, most = wp.float64(0.0), wp.float64(wp.inf)
    hit = bvh.warp.closest_hit(target, o, d, near, most)
    t[i] = wp.where(hit.state == 0, hit.t, wp.float64(wp.nan))
    met[i] = bvh.warp.any_hit(target, o, d, near, most)
    count = bvh.warp.count_hits(target, o, d, near, most)
    crossed[i] = wp.where(count.state == 0, count.count, -1)
    far[i] = bvh.warp.closest_point(target, o, most).distance


@pytest.mark.parametrize("in_scene", [False, True])
def test_functions_for_kernels(in_scene: bool, rng: np.random.Generator) -> None:
    """In a kernel of a user they give what queries give."""
    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(3))
    host: Any = tree
    if in_scene:
        host = bvh.Scene()
        host.add_many(tree, [np.diag([x, 1.0, 0.5, 1.0]) for x in (1.0, -2.0, 3.0)])
    o, d = rng.normal(size=(2, 400, 3)) * [[[2.0]], [[1.0]]]
    given = [wp.array(array, dtype=wp.vec3d, device=DEVICE) for array in (o, d)]
    kinds = wp.float64, wp.bool, wp.int32, wp.float64
    t, met, crossed, far = (wp.empty(400, dtype=kind, device=DEVICE) for kind in kinds)
    inputs = [host.to(DEVICE).target, *given, t, met, crossed, far]
    wp.launch(ask, 400, inputs=inputs, device=DEVICE)
    assert_same(t.numpy(), host.closest_hit(o, d).t, "t")
    assert_same(met.numpy(), host.any_hit(o, d), "met")
    assert crossed.numpy().tolist() == host.count_hits(o, d).tolist()
    if not in_scene:
        assert_same(far.numpy(), tree.distance(o), "far")


def test_functions_at_a_fan(rng: np.random.Generator) -> None:
    """A ray that may hit more triangles than are kept is undecided, but it hits one of these."""
    tree = bvh.BVH.from_mesh(trimesh.creation.cone(1.0, 1.0, sections=60))
    o = rng.normal(size=(20, 3)) + [0.0, 0.0, 4.0]
    given = [wp.array(a, dtype=wp.vec3d, device=DEVICE) for a in (o, [0.0, 0.0, 1.0] - o)]
    kinds = wp.float64, wp.bool, wp.int32, wp.float64
    t, met, crossed, far = (wp.empty(20, dtype=kind, device=DEVICE) for kind in kinds)
    inputs = [tree.to(DEVICE).target, *given, t, met, crossed, far]
    wp.launch(ask, 20, inputs=inputs, device=DEVICE)
    wanted = tree.closest_hit(o, [0.0, 0.0, 1.0] - o)
    assert_same(met.numpy(), wanted.prim_id >= 0, "met")
    decided = ~np.isnan(t.numpy())
    assert (t.numpy()[decided] == wanted.t[decided]).all() and not decided.all()
    counted = crossed.numpy() >= 0
    assert (crossed.numpy() == tree.count_hits(o, [0.0, 0.0, 1.0] - o))[counted].all()
    assert not counted.all()


# Without the option products and sums are contracted on GPUs, not on CPUs: what the test below must
# be able to see, and what functions refuse to run with.
CONTROL = """
import warp as wp
from bvh.devices.exact.floats import is_contracted

@wp.kernel
def fused(x: wp.array(dtype=wp.vec2d), found: wp.array(dtype=wp.bool)):
    i = wp.tid()
    found[i] = is_contracted(x[i])
"""


@pytest.mark.long
def test_no_operation_is_contracted(tmp_path: Path) -> None:
    """What Warp compiles for GPUs has no fused, approximate or flushing operations of doubles."""
    (tmp_path / "control_of_ptx.py").write_text(CONTROL)
    sys.path.insert(0, str(tmp_path))
    try:
        import control_of_ptx  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    plans = (chain.plan_of(chain.SMALL_STACK, False, int(g), True) for g in (CLOSEST, NEAREST))
    stages = [kernel.module for plan in plans for kernel, _ in (*plan.doubles, *plan.sums)]
    modules: list[Any] = [calls, building, rebuilding, instances, *stages, control_of_ptx]
    texts = []
    for number, module in enumerate(modules):
        folder = tmp_path / str(number)
        wp.compile_aot_module(module, arch=90, use_ptx=True, module_dir=str(folder))
        (path,) = folder.rglob("*.ptx")
        texts.append(path.read_text())
    assert re.search(r"\bfma\.", texts.pop())
    divisions = 0
    for text in texts:
        # What is fused on purpose says so (see `two_product`).
        text = "\n".join(line for line in text.splitlines() if "// rest" not in line)
        assert re.search(r"\bmul\.(rn\.)?f64", text)
        divisions += bool(re.search(r"\bdiv\.rn\.f64", text))
        found = re.findall(r"\b(?:fma|mad)\.\S*f(?:32|64)|\.approx\S*|\.ftz\S*", text)
        assert not found, set(found)
    # Of builds, and of what measures hits and points.
    assert divisions >= 3


def test_without_warp() -> None:
    """Nothing imports Warp unasked; without it, what needs it names the extra."""
    program = """
import sys, numpy as np
sys.modules["warp"] = None
import bvh
tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
tree.closest_hit([0, 0, 0], [1, 1, 1])
bvh.Camera.look_at([0, 0, 5], [0, 0, 0], [0, 1, 0], 40, 4, 4).rays()
for code in ("tree.to('cpu')", "import bvh.warp"):
    try:
        exec(code)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('pip install "raybvh[gpu]"') == 2
