"""Where folders of kernels are."""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bvh.runtime.cache.kernel_folders import KernelFolder
from bvh.runtime.cache.starting_folder import absolute


class Root(NamedTuple):
    """A folder that has a folder of kernels for each version; how far it is trusted."""

    path: Path
    link: bool = True

    def folder(self, name: str) -> KernelFolder:
        """Return the folder of a version."""
        return KernelFolder(self.path / name, self.link)


def cache_roots(wanted: str) -> list[Root]:
    """Return the folders where kernels may be stored, the first choice first."""
    paths = [absolute(wanted)] if wanted else []
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base and not base.startswith("~"):
        paths.append(absolute(base) / "raybvh")
    return [cache_root(path) for path in [*paths, temporary_root()]]


def cache_root(path: Path) -> Root:
    """Return a folder that this process may fill."""
    # In a folder that everyone can write to, a link may be anyone's.
    return Root(path, link=path != temporary_root())


def temporary_root() -> Path:
    """Return the user's own folder in the system's temporary folder."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    # `tempfile` would look for a relative one in the folder where the process is by now.
    paths = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    relative = [absolute(path) for path in paths if path and not os.path.isabs(path)]
    usable = (path for path in relative if os.access(path, os.W_OK))
    folder = next(usable, None) or absolute(tempfile.gettempdir())
    return folder / f"raybvh-{user}"
