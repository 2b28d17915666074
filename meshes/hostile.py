"""Meshes that break ray casters: no area, no thickness, no finite place, no triangle at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .shapes import Mesh, grid, merged

NEEDLE = 1e-9


def meshes() -> dict[str, Mesh]:
    """Return all hostile meshes by name, in a fixed order."""
    return {
        "repeated_index": repeated_index(),
        "collinear": collinear(),
        "coincident_points": coincident_points(),
        "degenerate_among_good": degenerate_among_good(),
        "duplicate_faces": duplicate_faces(),
        "nan_vertices": spoiled((np.nan, np.nan, np.nan)),
        "one_nan_coordinate": spoiled((1.0, np.nan, 0.0)),
        "infinite_vertices": spoiled((np.inf, -np.inf, 0.0)),
        "unused_nan_vertex": unused_nan_vertex(),
        "needles": needles(),
        "needle_prism": needle_prism(),
        "needle_prism_tilted": needle_prism(axis=(1.0, 2.0, 2.0)),
        "coincident_layers": coincident_layers(),
        "near_layers": coincident_layers(gap=1e-15),
        "empty": empty(),
        "vertices_only": vertices_only(),
        "single": single(),
        "flat_grid": flat_grid(),
        "fan": fan(),
        "t_junction": t_junction(),
        "three_on_an_edge": three_on_an_edge(),
        "inverted": inverted(),
        "gigantic": single(1e150),
        "tiny": single(1e-150),
        "subnormal": single(2.0**-1060),
        "gigantic_and_tiny": merged([single(1e150), single(1e-150), single()]),
        "far_away": far_away(),
    }


def repeated_index() -> Mesh:
    """Return triangles without area: two or three of their corners are the same vertex."""
    return _mesh(np.eye(3), [[0, 1, 1], [0, 0, 1], [0, 1, 0], [2, 2, 2]])


def collinear() -> Mesh:
    """Return triangles whose corners lie on one line, exactly or up to rounding."""
    exact = _mesh([[0, 0, 0], [1, 1, 1], [2, 2, 2], [4, 4, 4]], [[0, 1, 2], [2, 0, 3], [3, 1, 0]])
    step = np.array([0.1, 0.2, 0.7])
    rounded = _mesh([0.0 * step, step, 3.0 * step, 7.0 * step], [[0, 1, 2], [3, 1, 0]])
    return merged([exact, rounded])


def coincident_points() -> Mesh:
    """Return triangles whose corners are different vertices at the same place."""
    points: list[list[float]] = [
        [0, 0, 0],
        [0, 0, 0],
        [1, 0, 0],
        [0, -0.0, 0],
        [1, 0, 0],
        [0, 1, 0],
    ]
    return _mesh(points, [[0, 1, 2], [0, 1, 3], [0, 2, 4], [5, 0, 3]])


def degenerate_among_good() -> Mesh:
    """Return a flat grid with every kind of triangle without area mixed in."""
    parts = [repeated_index(), flat_grid(4), collinear(), coincident_points(), flat_grid(3)]
    return merged(parts)


def duplicate_faces() -> Mesh:
    """Return a tetrahedron with faces repeated: as they are, rotated and turned over."""
    vertices, faces = _tetrahedron()
    again = np.concatenate([faces, faces[:2], np.roll(faces, 1, axis=1), faces[:, ::-1]])
    return vertices, again


def spoiled(point: ArrayLike) -> Mesh:
    """Return a grid in which one inner vertex, in use by six triangles, is ``point``."""
    vertices, faces = flat_grid(4)
    vertices[12] = point
    return vertices, faces


def unused_nan_vertex() -> Mesh:
    """Return a tetrahedron whose list of vertices holds NaN and infinity no face refers to."""
    vertices, faces = _tetrahedron()
    return np.concatenate([[[np.nan] * 3], vertices, [[np.inf, 0.0, -np.inf]]]), faces + 1


def needles(count: int = 200, thickness: float = 1e-12) -> Mesh:
    """Return triangles of length 1 and of ``thickness``, all around the origin."""
    rng = np.random.default_rng(3)
    points = np.empty((count, 3, 3))
    points[:, 0] = rng.uniform(-1.0, 1.0, (count, 3))
    along = rng.normal(size=(count, 3))
    along /= np.sqrt((along * along).sum(axis=1, keepdims=True))
    points[:, 1] = points[:, 0] + along
    points[:, 2] = points[:, 0] + along / 2 + thickness * np.cross(along, [0.3, -0.5, 0.8])
    return points.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3)


def needle_prism(
    length: float = 1.0, size: float = NEEDLE, axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
) -> Mesh:
    """Return a closed prism of eight triangles: ``length`` along ``axis``, base edges of ``size``.

    It is closed by its shared vertices; merging vertices that lie near would collapse it.
    """
    w = np.asarray(axis, dtype=np.float64) / np.sqrt(np.sum(np.square(axis)))
    u = np.cross([0.0, 0.0, 1.0], w)
    u /= np.sqrt(np.sum(u * u))
    v = np.cross(w, u)
    base = size * np.stack([0.0 * u, u, 0.5 * u + 0.75**0.5 * v])
    faces = [[0, 2, 1], [3, 4, 5]]
    for i, j in ((0, 1), (1, 2), (2, 0)):
        faces += [[i, j, j + 3], [i, j + 3, i + 3]]
    return _mesh(np.concatenate([base, base + length * w]), faces)


def coincident_layers(layers: int = 5, gap: float = 0.0) -> Mesh:
    """Return equal grids at z = 1, each with vertices of its own, ``gap`` apart."""
    vertices, faces = flat_grid(6)
    return merged([(vertices + [0.0, 0.0, 1.0 + k * gap], faces) for k in range(layers)])


def empty() -> Mesh:
    """Return no vertex and no triangle."""
    return _mesh(np.zeros((0, 3)), np.zeros((0, 3)))


def vertices_only() -> Mesh:
    """Return four vertices that no triangle uses."""
    return _mesh(_tetrahedron()[0], np.zeros((0, 3)))


def single(size: float = 1.0) -> Mesh:
    """Return one triangle in the plane z = 0, its legs ``size`` long."""
    return _mesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]) * size, [[0, 1, 2]])


def flat_grid(n: int = 32) -> Mesh:
    """Return the square from 0 to 1 in the plane z = 0, exact cells where n is a power of two."""
    x, y = np.meshgrid(np.arange(n + 1) / n, np.arange(n + 1) / n, indexing="ij")
    return grid(np.stack([x, y, np.zeros_like(x)], axis=-1))


def fan(count: int = 1000) -> Mesh:
    """Return a disc of ``count`` triangles that all share vertex 0, the origin."""
    angle = 2.0 * np.pi * np.arange(count) / count
    rim = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    number = np.arange(1, count + 1)
    faces = np.column_stack([np.zeros(count, dtype=np.int64), number, np.roll(number, -1)])
    return np.concatenate([np.zeros((1, 3)), rim]), faces


def t_junction() -> Mesh:
    """Return a square of three triangles: a vertex of two lies on an edge of the third."""
    points: list[list[float]] = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 0]]
    return _mesh(points, [[0, 1, 2], [0, 4, 3], [4, 2, 3]])


def three_on_an_edge() -> Mesh:
    """Return three triangles that share one edge."""
    points: list[list[float]] = [[0, 0, 0], [0, 0, 1], [1, 0, 0.5], [-1, 1, 0.5], [-1, -1, 0.5]]
    return _mesh(points, [[0, 1, 2], [0, 1, 3], [0, 1, 4]])


def inverted() -> Mesh:
    """Return a closed tetrahedron that faces inward."""
    vertices, faces = _tetrahedron()
    return vertices, faces[:, ::-1].copy()


def far_away() -> Mesh:
    """Return a tetrahedron of size 1 at a distance of 2**40, where float64 resolves 2**-12."""
    vertices, faces = _tetrahedron()
    return vertices + 2.0**40, faces


def _tetrahedron() -> Mesh:
    """Return the corner of the unit cube at the origin, closed, facing out."""
    points: list[list[float]] = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    return _mesh(points, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def _mesh(vertices: ArrayLike, faces: ArrayLike) -> Mesh:
    """Return lists as arrays of the types every generator gives."""
    points: NDArray[np.float64] = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    return points, np.array(faces, dtype=np.int64).reshape(-1, 3)
