"""`python -m benchmarks`, the same as `bvh bench`."""

from __future__ import annotations

from .session import main

if __name__ == "__main__":
    main()
