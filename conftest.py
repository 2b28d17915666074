"""Files whose examples need a library that is not installed."""

from importlib.util import find_spec

NEEDS = {
    "torch": (
        "bvh/torch.py",
        "bvh/gradients/queries.py",
        "bvh/gradients/torch_functions.py",
        "bvh/examples/find_pose.py",
        "bvh/examples/fit_surface.py",
    ),
    "jax": ("bvh/jax.py", "bvh/gradients/jax_functions.py"),
}

collect_ignore = [
    path for library, paths in NEEDS.items() if find_spec(library) is None for path in paths
]
