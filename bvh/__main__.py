"""`python -m bvh`, and the `bvh` command."""

import sys

from bvh.runtime.cache.head_start import compile_meanwhile

# Commands that cast rays, whose kernel another process compiles while they read and build.
CASTING = "cast", "render"


def main() -> None:
    """Run the command line; exit with status 2 if a package that it needs is not installed."""
    if sys.argv[1:2] and sys.argv[1] in CASTING:
        compile_meanwhile("bvh.traversal.rays.closest_hit.closest_hits", compile_rays)
    try:
        from bvh.apps.cli.cli import run
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

    from bvh.queries.hierarchy import BVH

    # No builder is compiled for an empty tree.
    empty = BVH.from_triangles(np.empty((0, 3)), np.empty((0, 3), np.int32), warn=False)
    empty.closest_hit(np.zeros((2, 3)), np.ones((2, 3)))


if __name__ == "__main__":
    main()
