"""The working directory at the import of the package, to which relative settings refer.

The process may change its directory before they are used, and another user could have put kernels
into the new one.
"""

import os
from pathlib import Path

try:
    _folder = os.getcwd()
except FileNotFoundError:
    # The working directory has been removed: relative settings then refer to the root.
    _folder = os.path.abspath(os.sep)


def absolute(path: str) -> Path:
    """Return the absolute path of a setting, with ~ expanded."""
    return Path(os.path.normpath(os.path.join(_folder, os.path.expanduser(path))))
