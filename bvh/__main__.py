"""`python -m bvh`, and the `bvh` command."""

import sys


def main() -> None:
    """Run the command line; exit with status 2 if a package that it needs is not installed."""
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


if __name__ == "__main__":
    main()
