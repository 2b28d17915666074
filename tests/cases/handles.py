"""How handles of task graphs travel."""

from __future__ import annotations

from bvh.distributed.handles import Handle, mapped_content


def kind_of(handle: Handle) -> str:
    """Return "mapped tree", "mapped scene", "scene", or "bytes" for what is pickled whole."""
    recipe = handle.recipe
    if not callable(recipe):
        return "bytes"
    return f"mapped {recipe.args[0]}" if recipe.func is mapped_content else "scene"


def checksum_of(handle: Handle) -> str:
    """Return the checksum of the file of a mapped tree or scene."""
    checksum: str = handle.recipe.args[2]
    return checksum


def trees_of(handle: Handle) -> list[Handle]:
    """Return the handles of the trees of a scene in memory."""
    trees: list[Handle] = handle.recipe.args[1]
    return trees
