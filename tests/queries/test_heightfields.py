"""Height fields: rows and columns, coordinates, transforms, holes; what is seen from a place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from bvh import BVH
from bvh.docs.programs import terrain

DOWN = [0.0, 0.0, -1.0]


def heights(tree: BVH, x: Any, y: Any) -> np.ndarray:
    """Return the height under points; NaN where there is none."""
    x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
    origins = np.stack([x, y, np.full(x.shape, 1e4)], axis=-1)
    return np.asarray(tree.closest_hit(origins, DOWN).position[..., 2])


@pytest.mark.parametrize("ways", [(1, 1), (-1, 1), (1, -1), (-1, -1)])
def test_axes_and_cells(ways: tuple[int, int], rng: np.random.Generator) -> None:
    """Rising and falling coordinates: heights at vertices, cells under points, normals upward."""
    z = rng.random((5, 8))
    x, y = np.cumsum(rng.random(8) + 0.1) * ways[0], np.cumsum(rng.random(5) + 0.1) * ways[1]
    tree = BVH.from_heightfield(z, x, y)
    assert len(tree) == 2 * 4 * 7
    assert np.allclose(heights(tree, *np.meshgrid(x, y)), z, rtol=0, atol=1e-12)
    row, column = rng.integers(0, 4, 50), rng.integers(0, 7, 50)
    u, v = rng.random((2, 50))
    at = np.stack([x[column] + u * (x[column + 1] - x[column]),
                   y[row] + v * (y[row + 1] - y[row]), np.full(50, 9.0)], axis=1)  # fmt: skip
    hits = tree.closest_hit(at, DOWN)
    found = np.unravel_index(tree.face_of(hits.prim_id), (4, 7))
    assert np.array_equal(found[0], row)
    assert np.array_equal(found[1], column)
    assert (hits.normal[:, 2] > 0.0).all()
    assert hits.front.all()


def test_transforms_and_holes(rng: np.random.Generator) -> None:
    """Pixels of a raster, turned ones too; NaN and masked heights are holes."""
    z = rng.random((6, 5))
    tree = BVH.from_heightfield(z, transform=(10.0, 0.0, 500.0, 0.0, -10.0, 900.0))
    assert heights(tree, 505.0 + 20.0, 895.0 - 30.0) == pytest.approx(z[3, 2])
    turned = BVH.from_heightfield(z, transform=(0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 1.0))
    assert heights(turned, 2.0 * 3.5, 2.0 * 2.5) == pytest.approx(z[3, 2])
    assert (turned.closest_hit([7.1, 5.2, 9.0], DOWN).normal[2]) > 0.0
    z[2, 2] = np.nan
    assert np.isnan(heights(BVH.from_heightfield(z), 2.25, 2.25))
    masked = np.ma.masked_invalid(z)
    assert np.isnan(heights(BVH.from_heightfield(masked), 2.25, 2.25))
    assert heights(BVH.from_heightfield(masked), 0.0, 0.0) == pytest.approx(z[0, 0])


def test_xarray(rng: np.random.Generator) -> None:
    """Coordinates of a DataArray; dimensions without coordinates count."""
    xarray = pytest.importorskip("xarray")
    z = rng.random((3, 4))
    array = xarray.DataArray(z, dims=("lat", "lon"), coords={"lat": [5, 4, 3], "lon": [0, 2, 4, 9]})
    assert heights(BVH.from_heightfield(array), 9.0, 3.0) == pytest.approx(z[2, 3])
    plain = xarray.DataArray(z, dims=("row", "column"))
    assert heights(BVH.from_heightfield(plain), 3.0, 1.0) == pytest.approx(z[1, 3])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "float32", ">i2"])
def test_masked_rasters(dtype: str, rng: np.random.Generator) -> None:
    """Bands of integers, as rasterio reads them with their mask, have holes as those of reals."""
    z = rng.integers(1, 100, (12, 17)).astype(dtype)
    z[3:5, 6:9] = 0
    masked = np.ma.masked_equal(z, 0)
    transform = (30.0, 0.0, 500.0, 0.0, -30.0, 900.0)
    tree = BVH.from_heightfield(masked, transform=transform)
    right = BVH.from_heightfield(np.where(z == 0, np.nan, z.astype(float)), transform=transform)
    assert np.array_equal(tree.vertices, right.vertices, equal_nan=True)
    assert np.array_equal(tree.faces, right.faces)
    assert tree.stats().ignored > 0
    assert np.isnan(heights(tree, 500.0 + 30.0 * 8.0, 900.0 - 30.0 * 5.0))
    # A mask of nothing, and one of everything.
    assert BVH.from_heightfield(np.ma.array(z)).bounds[1, 2] == z.max()
    with pytest.warns(bvh.BVHWarning):
        assert np.isnan(BVH.from_heightfield(np.ma.masked_all(z.shape, dtype)).bounds).all()


NAMED = [("y", "x"), ("lat", "lon"), ("northing", "easting"), ("Latitude", "Longitude"),
         ("rows", "x"), ("y", "other")]  # fmt: skip


@pytest.mark.parametrize("names", NAMED)
@pytest.mark.parametrize("falling", [(False, False), (False, True), (True, True)])
def test_names_of_dimensions(
    names: tuple[str, str], falling: tuple[bool, bool], rng: np.random.Generator
) -> None:
    """An array and its transpose are one surface, with cells as the array has them."""
    xarray = pytest.importorskip("xarray")
    z = rng.random((5, 8))
    x, y = np.cumsum(rng.random(8) + 0.1), np.cumsum(rng.random(5) + 0.1)
    x, y = x[::-1] if falling[0] else x, y[::-1] if falling[1] else y
    array = xarray.DataArray(z, dims=names, coords={names[1]: x, names[0]: y})
    right = BVH.from_heightfield(z, x, y)
    row, column = rng.integers(0, 4, 50), rng.integers(0, 7, 50)
    u, v = rng.random((2, 50))
    at = np.stack([x[column] + u * np.diff(x)[column], y[row] + v * np.diff(y)[row],
                   np.full(50, 9.0)], axis=1)  # fmt: skip
    for given in (array, array.T):
        tree = BVH.from_heightfield(given)
        hits = tree.closest_hit(at, DOWN)
        assert np.array_equal(hits.t, right.closest_hit(at, DOWN).t)
        assert hits.front.all()
        assert np.allclose(tree.vertices[:, 2].reshape(given.shape), given.data, rtol=0, atol=0)
        cell = np.unravel_index(tree.face_of(hits.prim_id), [n - 1 for n in given.shape])
        assert np.array_equal(cell[given.dims.index(names[0])], row)
        assert np.array_equal(cell[given.dims.index(names[1])], column)


def test_attributes_and_other_dimensions(rng: np.random.Generator) -> None:
    """Attributes by the CF conventions come first; without any, the first dimension is y."""
    xarray = pytest.importorskip("xarray")
    z, x, y = rng.random((3, 4)), np.array([0.0, 2.0, 3.0]), np.array([9.0, 8.0, 5.0, 1.0])
    right = BVH.from_heightfield(z.T, x, y)
    for said in ({"axis": "X"}, {"standard_name": "longitude"}):
        array = xarray.DataArray(z, dims=("a", "b"), coords={"a": ("a", x, said), "b": y})
        assert heights(BVH.from_heightfield(array), 3.0, 1.0) == heights(right, 3.0, 1.0)
    array = xarray.DataArray(z, dims=("a", "b"), coords={"a": x, "b": y})
    assert np.array_equal(BVH.from_heightfield(array).bounds[1, :2], [9.0, 3.0])
    # Coordinates and transforms that are given are of the dimensions that names tell, too.
    plain = xarray.DataArray(z, dims=("x", "y"))
    assert np.array_equal(BVH.from_heightfield(plain, x, y).bounds[1, :2], [3.0, 9.0])
    moved = BVH.from_heightfield(plain, transform=(1.0, 0.0, 10.0, 0.0, -1.0, 20.0))
    assert np.array_equal(moved.bounds[:, :2], [[10.5, 16.5], [12.5, 19.5]])
    assert moved.closest_hit([11.1, 17.2, 9.0], DOWN).front
    masked = xarray.DataArray(np.ma.masked_less(z, 2.0).filled(np.nan), dims=("y", "x"))
    with pytest.warns(bvh.BVHWarning):
        BVH.from_heightfield(masked)
    with pytest.raises(ValueError, match=r"one dimension along x and one along y, got \('x', 'lon"):
        BVH.from_heightfield(xarray.DataArray(z, dims=("x", "longitude")))


def test_what_is_seen_from_here() -> None:
    """A wall hides what is behind it; the horizon is its top; its shadow ends where it must."""
    z = np.zeros((41, 41))
    z[:, 20] = 2.0
    tree = BVH.from_heightfield(z)
    eye = np.array([10.0, 20.0, 1.0])
    seen = terrain.viewshed(tree, eye).reshape(41, 41)
    assert seen[:, :19].all()
    assert not seen[:, 21:].any()
    angle = terrain.horizon(tree, eye, np.array([0.0, np.pi]))
    assert np.tan(angle[0]) == pytest.approx(1.0 / 10.0)
    assert angle[1] < 0.0
    points = np.array([[22.0, 20.5, 1e-6], [25.0, 20.5, 1e-6]])
    dark = terrain.shadows(tree, points, np.array([-1.0, 0.0, 0.5]))
    assert dark.tolist() == [True, False]
    assert isinstance(tree, bvh.BVH)
    assert terrain.landscape(50).shape == (50, 50)


@pytest.mark.long
def test_beside_xarray_spatial() -> None:
    """The viewshed of hills agrees with that of xarray-spatial but at grazing points."""
    xarray, spatial = pytest.importorskip("xarray"), pytest.importorskip("xrspatial")
    z = terrain.landscape(200)
    axis = terrain.STEP * np.arange(200)
    array = xarray.DataArray(z, dims=("y", "x"), coords={"x": axis, "y": axis[::-1]})
    tree = BVH.from_heightfield(array)
    row, column = np.unravel_index(z.argmax(), z.shape)
    peer = spatial.viewshed(array, x=axis[column], y=axis[::-1][row], observer_elev=10.0)
    eye = np.array([axis[column], axis[::-1][row], z.max() + 10.0])
    mine = terrain.viewshed(tree, eye).reshape(z.shape)
    assert (mine == (peer.values >= 0.0)).mean() > 0.95
