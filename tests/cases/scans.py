"""Real scans, where a folder of them is at hand: BVH_TEST_MESHES, or ../shared/meshes."""

from __future__ import annotations

import os
from pathlib import Path

SCANS = Path(os.environ.get("BVH_TEST_MESHES", Path(__file__).parents[3] / "shared" / "meshes"))
