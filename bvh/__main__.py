"""`python -m bvh`, and the `bvh` command."""

import sys
from typing import TYPE_CHECKING, Any

from bvh.runtime.cache.head_start import compile_meanwhile

if TYPE_CHECKING:
    from bvh.queries.hierarchy import BVH

# Commands that cast rays, whose kernel another process compiles while they read and build.
CASTING = "cast", "render"


def main() -> None:
    """Run the command line; exit with status 2 if a package that it needs is not installed."""
    try:
        if sys.argv[1:2] and sys.argv[1] in CASTING:
            rays = "bvh.traversal.rays.closest_hit.closest_hits"
            compile_meanwhile(rays, compile_rays, lower_exact_tests, compile_positions)
        from bvh.apps.cli.cli import run
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError as error:
        missing = error.name or ""
        # Only these are optional; an error about any other module is raised as it is.
        if missing.split(".")[0] not in ("typer", "rich", "click"):
            raise
        print(f'bvh: the command line needs {missing}: pip install "raybvh[cli]"', file=sys.stderr)  # noqa: T201
        sys.exit(2)
    run()


def compile_rays() -> None:
    """Compile the kernel that casts batches of rays at trees over triangles."""
    import numpy as np

    _empty_tree().closest_hit(np.zeros((2, 3)), np.ones((2, 3)))


def lower_exact_tests() -> None:
    """Lower the exact tests of rays and triangles, a fifth of the work of `compile_rays`.

    The process that compiles the kernel reaches them late, and then only links them.
    """
    from bvh.geometry import triangles
    from bvh.geometry.arithmetic import edge_sides
    from bvh.runtime.compiler.dispatchers import lower

    vector = 0.0, 0.0, 0.0
    corners, near = (vector, vector, vector), edge_sides.passing_nothing.py_func()
    lower(edge_sides.filtered_sides, vector, vector, 0.0, corners)
    lower(edge_sides.side_at, vector, vector, vector, 0.0, near, corners)
    lower(triangles.distance, vector, vector, 0, 0, corners, 0)


def compile_positions() -> None:
    """Compile the kernel that computes positions of hits on trees over triangles."""
    from bvh.queries.answers.locations import on_faces

    primitives: Any = _empty_tree().arrays.primitives
    # Of one miss: the kernel is not called for no hits.
    on_faces(primitives, [], [-1], [0.0], [0.0])


def _empty_tree() -> "BVH":
    """Return a tree without triangles, for which no builder is compiled."""
    import numpy as np

    from bvh.queries.hierarchy import BVH

    return BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), np.int32), warn=False)


if __name__ == "__main__":
    main()
