"""Libraries of linked kernels in the wheel: hatchling runs it.

BVH_LINK is a folder that `.ci/link` has made for a platform, or `here`: then kernels are compiled
and linked for this machine, which takes minutes. Without it the wheel is for all platforms and
carries no library; its kernels are compiled when they are first called.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SETTING = "BVH_LINK"


class Carried(BuildHookInterface):
    def dependencies(self) -> list[str]:
        """Return what compiles and links, where that is wanted."""
        core = self.build_config.builder.metadata.core.dependencies
        return [*core, "ziglang>=0.15"] if os.environ.get(SETTING) == "here" else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get(SETTING)
        if not wanted or version == "editable":
            return
        sys.path.insert(0, str(Path(__file__).parent))
        from linking import PLATFORMS, this_platform

        folder = Path(wanted)
        if wanted == "here":
            self._made = tempfile.TemporaryDirectory()
            folder = Path(self._made.name, this_platform())
            program = Path(__file__).with_name("link")
            command = [sys.executable, program, "--level", "here", "--out", folder.parent]
            subprocess.run(command, check=True)
        if folder.name not in PLATFORMS or not folder.is_dir():
            names = ", ".join(PLATFORMS)
            raise ValueError(f"{SETTING} must be here or a folder {names}, got {wanted!r}")
        build_data["force_include"][str(folder)] = "bvh/linked"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORMS[folder.name].tags}"
