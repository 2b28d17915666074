"""The peers, one file each; those that are installed join."""

from __future__ import annotations

import importlib.metadata

from ..casters import Caster, installed
from .embreex import Embreex
from .libigl import Libigl
from .open3d import Open3D
from .pyvista import PyVista
from .trimesh import RTree
from .trueform import Trueform
from .warp import Warp

# In the order of the tables: the fastest first.
PEERS: dict[str, type[Caster]] = {
    peer.name: peer for peer in (Open3D, Embreex, Warp, Trueform, Libigl, PyVista, RTree)
}

# Those that are fast enough for every measurement, as tables of rays alone have them.
EMBREE = ("Open3D", "embreex")


def found(names: list[str] | tuple[str, ...] | None = None) -> list[type[Caster]]:
    """Return the peers that are installed, or those of some names."""
    return [
        peer
        for name, peer in PEERS.items()
        if (names is None or name in names) and installed(peer.module)
    ]


def version(peer: type[Caster]) -> str | None:
    """Return a peer's version, None where it is not installed."""
    try:
        return importlib.metadata.version(peer.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
