"""What holds for tests and examples: files that need other libraries."""

import sys
from importlib.util import find_spec

NEEDS = {
    "torch": (
        "bvh/torch.py",
        "bvh/gradients/queries.py",
        "bvh/gradients/torch_functions.py",
        "bvh/docs/programs/find_pose.py",
        "bvh/docs/programs/fit_surface.py",
    ),
    "jax": ("bvh/jax.py", "bvh/gradients/jax_functions.py"),
    "warp": ("bvh/warp.py", "bvh/devices", "bvh/docs/devices.md", "bvh/docs/programs/sky_light.py"),
    "pyvista": ("bvh/compat/pyvista.py", "bvh/compat/vtk.py"),
}

collect_ignore = [
    path for library, paths in NEEDS.items() if find_spec(library) is None for path in paths
]


def pytest_runtest_setup() -> None:
    """Have Warp print nothing into examples, once it is imported."""
    warp = sys.modules.get("warp")
    if warp is not None:
        warp.config.log_level = warp.LOG_ERROR
