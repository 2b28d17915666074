"""Peers, one file each; those that are installed take part."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable

from .caster import Caster
from .embree import Embree, EmbreePackets
from .embreex import Embreex
from .libigl import Libigl
from .manifold import Manifold
from .open3d import Open3D
from .pyvista import PyVista
from .tinybvh import TinyBVH
from .trimesh import FCL, RTree
from .warp import Warp

# In the order of the tables: the fastest first.
PEERS: dict[str, type[Caster]] = {
    peer.name: peer
    for peer in (
        Open3D, Embreex, Embree, EmbreePackets, TinyBVH, Warp, Libigl, PyVista, Manifold, RTree, FCL
    )
}  # fmt: skip

# Peers that are fast enough to build the tree of a large mesh again and again.
EMBREE = ("Open3D", "embreex")


def available(names: Iterable[str] | None = None) -> list[type[Caster]]:
    """Return the installed peers, all or those of some names."""
    wanted = PEERS if names is None else names
    return [peer for name, peer in PEERS.items() if name in wanted and peer.is_installed()]


def version(distribution: str) -> str | None:
    """Return the version of a package, None where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
