"""Libraries of compiled kernels in the wheel: hatchling runs it, `.ci/link` makes them.

BVH_LINK names a platform, as `.ci/link` does, or is `here` for this machine's. Without it the wheel
is for all platforms and carries none; its kernels are compiled when they are first called.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETTING = "BVH_LINK"


class Carried(BuildHookInterface):
    def dependencies(self) -> list[str]:
        """Return what compiles and links."""
        core = self.build_config.builder.metadata.core.dependencies
        return [*core, "ziglang>=0.15"] if os.environ.get(SETTING) else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        platform = os.environ.get(SETTING, "")
        if not platform or version == "editable":
            return
        sys.path.insert(0, str(Path(__file__).parent))
        import linking

        if platform == "here":
            platform = linking.this_platform()
        self.folder = Path(self.directory, f"linked-{platform}")
        command = [str(Path(__file__).with_name("link")), "--platform", platform]
        subprocess.run([sys.executable, *command, "--out", str(self.folder)], check=True)
        build_data["force_include"][str(self.folder)] = "bvh/linked"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{linking.PLATFORMS[platform].tags}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)
