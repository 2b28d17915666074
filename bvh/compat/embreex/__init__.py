"""Drop-in replacement for embreex, and pyembree: exact, on all platforms.

Programs import `bvh.compat.embreex` in place of `embreex`; or call `stand_in` first, and run
unchanged.

Each file imports only from those above it.

| file | contents |
|---|---|
| `rtcore.py` | `EmbreeDevice`, which does nothing |
| `rtcore_scene.py` | `EmbreeScene`: meshes under one tree, and queries of rays with embreex's arguments |
| `mesh_construction.py` | `TriangleMesh` and `ElementMesh`, which add triangles, tetrahedra and hexahedra to a scene |

Examples
--------
>>> import numpy as np
>>> from bvh.compat.embreex import mesh_construction, rtcore_scene
>>> scene = rtcore_scene.EmbreeScene()
>>> _ = mesh_construction.TriangleMesh(scene, np.eye(3)[None])
>>> scene.run(np.full((2, 3), 5.0), np.array([[-1.0, -1.0, -1.0], [1.0, 0.0, 0.0]]))
array([ 0, -1], dtype=int32)
"""

import sys
from importlib import import_module

MODULES = ("rtcore", "rtcore_scene", "mesh_construction")

# The version of embreex whose interface this is.
__version__ = "4.4.0"


def stand_in(*names: str) -> None:
    """Make later imports of embreex and pyembree find this package.

    Parameters
    ----------
    *names : str
        The names to stand in for; "embreex" and "pyembree" by default.

    Examples
    --------
    >>> import sys
    >>> from bvh.compat import embreex
    >>> embreex.stand_in("pyembree")
    >>> from pyembree.rtcore_scene import EmbreeScene
    >>> EmbreeScene.__module__
    'bvh.compat.embreex.rtcore_scene'
    """
    for name in names or ("embreex", "pyembree"):
        sys.modules[name] = sys.modules[__name__]
        for module in MODULES:
            sys.modules[f"{name}.{module}"] = import_module(f"{__name__}.{module}")
