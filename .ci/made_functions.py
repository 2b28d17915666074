"""Functions that are made at import, for the reference: what is read of files has no docstrings."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import griffe


class MadeFunctions(griffe.Extension):
    """Those of `bvh.torch` and `bvh.jax`, which are declared once for both."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace attributes of these modules by what they are."""
        for name in ("torch", "jax"):
            if find_spec(name) is None:
                continue
            module = pkg[name]
            made = import_module(module.path).__test__
            assert isinstance(module.filepath, Path)
            found = griffe.inspect(name, filepath=module.filepath, parent=pkg)
            for public in made:
                module[public] = found[public]
