"""All families of hostile meshes with rays to match, each made from a seed.

`FAMILIES` maps names to builders f(rng); `build` makes one family, `families` all of them. What
the rays hit is not written down here: `oracle` tells. Families called "beyond" leave the range of
coordinates that the package promises (1e-150 to 1e150), though not that of doubles.
"""

from tests.cases import families_of_meshes, families_of_rays
from tests.cases.family_parts import FAMILIES, Family, build, cube, families, octahedron, sphere

__all__ = [
    "FAMILIES",
    "Family",
    "build",
    "cube",
    "families",
    "families_of_meshes",
    "families_of_rays",
    "octahedron",
    "sphere",
]
