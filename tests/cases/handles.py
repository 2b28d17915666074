"""How handles of task graphs travel."""

from __future__ import annotations

from bvh.distributed.handles import Handle, MappedContent


def kind_of(handle: Handle) -> str:
    """Return "mapped tree", "mapped scene", "scene", or "bytes" for what is pickled whole."""
    recipe = handle.recipe
    if isinstance(recipe, MappedContent):
        return f"mapped {recipe.kind}"
    return "scene" if callable(recipe) else "bytes"
