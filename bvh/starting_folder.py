"""The folder that the process was in when it imported the package.

Relative paths in settings mean a place in it, wherever the process goes before they are first used:
where it goes later, somebody else may have put kernels ready.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    _folder = os.getcwd()
except FileNotFoundError:
    # It has been removed meanwhile, and nothing can be in it.
    _folder = os.path.abspath(os.sep)


def absolute(path: str) -> Path:
    """Return a path of a setting as an absolute one."""
    return Path(os.path.normpath(os.path.join(_folder, os.path.expanduser(path))))
