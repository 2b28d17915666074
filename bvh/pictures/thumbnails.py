"""Thumbnails of trees, scenes and hits, for notebooks."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
from bvh.pictures import colours
from bvh.pictures.picture import Picture, need_pillow
from bvh.pictures.render_source import Pictured
from bvh.pictures.rendering import render
from bvh.pictures.shading import Shade
from bvh.pictures.surfaces import leaf_of
from bvh.queries.results import Hits
from bvh.runtime.arguments import Axis, check_option
from bvh.runtime.simd import WIDTH as LANES
from bvh.scene.scene import Scene

WIDTH, HEIGHT = 480, 360

ShownBy = Literal["t", "prim_id", "instance_id", "cost"]


def show(
    what: Pictured | Hits | Picture, camera: Camera | None = None, *, shade: Shade | None = None,
    by: ShownBy = "t", up: Axis | ArrayLike | None = None, width: int = WIDTH, height: int = HEIGHT,
) -> Picture:  # fmt: skip
    """Return a small picture of a tree, a scene, parts or hits, which notebooks display.

    Parameters
    ----------
    what : BVH, Scene, Parts, Hits or Picture
        A tree, a scene or a mesh in parts is rendered. Hits must have the shape (height, width) of
        a picture, as for ``camera.rays()``; they are coloured, misses are background. A picture is
        returned unchanged.
    camera : Camera, optional
        Camera for a tree, scene or parts; by default one that sees all of it.
    shade : str, optional
        How to render them, as in `bvh.pictures.render`; by default "material" for a scene in which
        a mesh has one, else "clay".
    by : {"t", "prim_id", "instance_id", "cost"}
        Meaning of the colours of hits: distance, from light to dark; faces; instances of a scene;
        or, for hits with counters, the cost, like the shade "cost".
    up : {"x", "y", "z", "-x", "-y", "-z"} or array_like, shape (3,), optional
        Up direction without a camera; by default `Scene.up`, and z for all else.
    width, height : int
        Size in pixels of a picture that is rendered without a camera.

    Returns
    -------
    Picture
        Its `repr` is one line, for terminals; `save` writes it to a file.

    Examples
    --------
    >>> import bvh
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [2, 0, 0], [0, 2, 0]], [[0, 1, 2]])
    >>> camera = bvh.Camera.orthographic([1, 1, 5], [1, 1, 0], [0, 1, 0], 2.0, 4, 2)
    >>> bvh.show(tree.closest_hit(*camera.rays()))
    Picture(4 x 2 pixels of t)
    """
    need_pillow()
    if isinstance(what, Picture):
        return what
    if isinstance(what, Hits):
        return _of_hits(what, by)
    if not isinstance(what, Pictured):
        kinds = "a BVH, a Scene, Parts, Hits or a Picture"
        raise TypeError(f"what must be {kinds}, got {type(what).__name__}")
    if camera is None:
        if not np.isfinite(what.bounds).all():
            raise ValueError(f"{what!r} has nothing to look at; give a camera")
        camera = Camera.framing(what, up=up, width=width, height=height)
    if shade is None:
        attributes = (
            [what.attributes(t) for t in what.leaves.trees] if isinstance(what, Scene) else []
        )
        shade = "clay" if all(each.material is None for each in attributes) else "material"
    return render(what, camera, shade, samples=2)


def _of_hits(hits: Any, by: ShownBy) -> Picture:
    """Return the picture of hits of shape (height, width), coloured as `show` describes `by`."""
    check_option("by", by, get_args(ShownBy))
    mask, shape = hits.mask, np.shape(hits.mask)
    if len(shape) != 2 or not mask.size:
        raise ValueError(f"hits must have the shape (height, width) of a picture, got {shape}")
    if by == "cost":
        if hits.nodes is None:
            raise ValueError('by="cost" needs hits with counters')
        cost = hits.nodes + hits.tests / LANES
        hottest = colours.hottest_of(cost)
        return Picture(colours.in_bytes(colours.heat(cost, hottest)), shade=by, hottest=hottest)
    height, width = shape
    rows = (np.arange(height) + 0.5) / height
    painted = np.repeat(colours.sky(rows)[:, None], width, axis=1)
    if mask.any():
        painted[mask] = _coloured(hits[mask], by)
    return Picture(colours.in_bytes(painted), shade=by)


def _coloured(hits: Any, by: ShownBy) -> NDArray[np.float64]:
    """Return the colours of n hits, none of which is a miss, by "t" or by ids, (n, 3)."""
    if by == "t":
        # The farthest few are often much farther away than all others: they get the last colour.
        near, far = np.quantile(hits.t, [0.0, 0.99])
        share = (hits.t - near) / max(far - near, np.finfo(np.float64).tiny)
        return colours.ramp(share, colours.RANGE)
    if by == "instance_id":
        if hits.instance_id is None:
            raise ValueError('by="instance_id" needs hits of a scene')
        return colours.instance_colours(hits.instance_id)
    return colours.face_colours(hits.prim_id, leaf_of(hits))
