"""Placement of cameras: by eye, direction and up, by what is seen, from OpenCV, VTK or trimesh."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera import matrices
from bvh.camera.matrices import Geometry, Raster, YDirection
from bvh.geometry.arithmetic.rational import product, scaled, times
from bvh.runtime.arguments import Axis, reals, whole_number
from bvh.runtime.caller_warnings import warn_caller

Floats = NDArray[np.float64]

# Up directions by name.
AXES: dict[str, tuple[float, float, float]] = {
    "x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0),
    "-x": (-1.0, 0.0, 0.0), "-y": (0.0, -1.0, 0.0), "-z": (0.0, 0.0, -1.0),
}  # fmt: skip

# Up vector when looking along the default up axis.
UP_ON_MAPS: dict[str, Axis] = {"x": "z", "y": "-z", "z": "y"}

# Share of the picture's width or height that a framed model fills, whichever is reached first.
FILL = 0.8
# Limit of primitives whose vertices are projected; above it, corners of bounds replace them.
MAX_SIZE = 1 << 20
# Rounds of centring in the direction that leaves room; each leaves a small share of the error.
ROUNDS = 4
# Fields of view in this range are probably radians, not degrees.
RADIANS = 0.4, 1.6
# Largest deviation of a matrix from a rotation, for matrices from files of four digits.
RIGID_SLACK = 1e-3


def view_geometry(
    name: str, eye: Floats, forward: Floats, up: Axis | ArrayLike | None, half_height: float,
    raster: Raster, default: Axis = "z",
) -> Geometry:  # fmt: skip
    """Return the geometry of a view from `eye` along `forward`, a unit vector.

    `half_height` is half the height of the picture at depth 1; errors about it call it `name`. If
    `up` is None, up is the axis `default` or, for a view along this axis, another one.
    """
    side = np.cross(forward, upward(default if up is None else up))
    if np.linalg.norm(side) < 1e-12:
        if up is not None:
            raise ValueError(f"up must not be along the view, got {up!r}")
        # The last letter of `default` is the axis, without its sign.
        side = np.cross(forward, upward(UP_ON_MAPS[default[-1]]))
    right = side / np.linalg.norm(side)
    width, height, direction, ratio = raster
    with np.errstate(over="ignore"):
        scale = np.float64(2.0 * half_height / height) * ratio
    if not 1e-300 < scale < 1e300:
        raise ValueError(f"{name} must give pixels of a size from 1e-300 to 1e300, got {scale}")
    step_y = np.cross(right, forward) * (scale if direction == "up" else -scale)
    middle = [width / 2 / ratio, height / 2 / ratio]
    step = scale * right
    return Geometry(eye.tolist(), forward.tolist(), step.tolist(), step_y.tolist(), middle)


def vector(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a new array of three numbers; errors name `name` if not all are finite."""
    array = reals(name, value)
    if array.shape != (3,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be three finite numbers, got {np.asarray(value).tolist()}")
    return array.copy()


def unit(name: str, value: ArrayLike) -> Floats:
    """Return the vector `value` scaled to length 1; a ValueError names `name` if it is zero."""
    direction = vector(name, value)
    size = np.abs(direction).max()
    if size == 0.0:
        raise ValueError(f"{name} must not be zero")
    # Scaled first, so that its square neither overflows nor underflows.
    direction /= size
    return np.asarray(direction / np.linalg.norm(direction))


def upward(up: Axis | ArrayLike, name: str = "up") -> Floats:
    """Return the unit direction of `up`, a vector or an axis like "-z"; errors call it `name`."""
    if isinstance(up, str):
        if up not in AXES:
            raise ValueError(f"{name} must be one of {', '.join(AXES)} or a direction, got {up!r}")
        return np.array(AXES[up])
    return unit(name, up)


def toward(eye: Floats, target: ArrayLike) -> Floats:
    """Return the unit direction from the eye to the argument `target`."""
    point = vector("target", target)
    if np.array_equal(eye, point):
        raise ValueError("target must differ from eye")
    # The difference of large numbers may overflow, and halves of the smallest ones underflow.
    scale = 1.0 if max(np.abs(eye).max(), np.abs(point).max()) < 1e300 else 0.5
    return unit("target", scale * point - scale * eye)


def half_height_of(fov_y: float) -> float:
    """Return half the height of the picture at depth 1, for a field of view in degrees, checked."""
    if reals("fov_y", fov_y).shape != () or not 0.0 < fov_y < 180.0:
        raise ValueError(f"fov_y must be between 0 and 180 degrees, got {fov_y}")
    # Numbers in the range RADIANS may be radians; 1 is more probably one degree.
    if RADIANS[0] <= fov_y <= RADIANS[1] and abs(fov_y - 1.0) > 1e-6:
        degrees = f"np.degrees({fov_y:.6g}) is {np.degrees(fov_y):.4g}"
        warn_caller(f"fov_y is in degrees, and {fov_y:.6g} may be in radians: {degrees}")
    return float(np.tan(np.radians(fov_y) / 2))


def oblique(up: Axis | ArrayLike) -> Floats:
    """Return the default view direction for `up`, oblique and a little downward, not normalised."""
    axis = upward(up)
    # The world axis that `up` is farthest from gives a horizontal direction.
    side = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    side /= np.linalg.norm(side)
    return np.asarray(0.8 * np.cross(axis, side) + 0.5 * side - 0.4 * axis)


def eye_that_sees(source: Any, box: Floats, basis: Floats, half: Floats) -> Floats:
    """Return the position (3,) of the nearest eye that sees all of `source`, a tree or scene.

    For another source, or one without finite points, it sees the corners of `box`, (2, 3), whose
    middle is then at the picture's centre. `basis` has the columns right, up and forward; `half` is
    half the width and height, at depth 1, of the part of the picture to be filled.
    """
    middle, points = 0.5 * box[0] + 0.5 * box[1], _outline_of(source)
    if points is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            right, above, depth = _eye_before(_in_view(points - middle, *basis.T), half)
    else:
        # An eye on the axis of view sees a corner that is at least `across` deeper than itself.
        corners = corners_of(box) - middle
        across = np.abs(corners @ basis[:, :2]) / half
        right, above = 0.0, 0.0
        # The column is copied because a product with a strided one may be rounded differently.
        depth = -float((across.max(axis=1) - corners @ basis[:, 2].copy()).max())
    # For a single point, for example, the eye would be at the middle: step back instead.
    if depth >= 0.0:
        depth = -max(1.0, np.abs(middle).max() / 1024)
    eye = middle + basis @ [right, above, depth]
    if not np.isfinite(eye).all():
        raise ValueError("bounds are too large to step back from")
    return np.asarray(eye)


def _outline_of(source: Any) -> Floats | None:
    """Return the finite points (n, 3) of a tree, a scene or parts, if any; None for anything else.

    They are vertices, or corners of bounds if there are more than MAX_SIZE primitives.
    """
    # Scenes have `leaves`, trees a `kind`, parts `corners`.
    if hasattr(source, "leaves"):
        found = _outline_of_leaves(source.leaves)
    elif not (hasattr(source, "kind") or hasattr(source, "corners")):
        return None
    elif len(source) > MAX_SIZE:
        found = corners_of(source.bounds)
    elif hasattr(source, "corners"):
        found = source.corners(np.arange(len(source))).reshape(-1, 3)
    else:
        found = _vertices(source)
    found = found[np.isfinite(found).all(axis=1)]
    return found if len(found) else None


def _outline_of_leaves(leaves: Any) -> Floats:
    """Return the points (n, 3), in the world, of a scene's leaves whose mask is not 0.

    They are vertices, or corners of the leaves' bounds if there are more than MAX_SIZE primitives.
    """
    shown = np.flatnonzero(leaves.masks != 0)
    sizes = np.array([len(tree) for tree in leaves.trees] or [0], np.int64)
    exact = int(sizes[leaves.tree_of[shown]].sum()) <= MAX_SIZE
    points = [_vertices(tree) if exact else corners_of(tree.bounds) for tree in leaves.trees]
    pairs = zip(leaves.tree_of[shown].tolist(), leaves.matrices[shown], strict=True)
    moved = [points[tree] @ matrix[:, :3].T + matrix[:, 3] for tree, matrix in pairs]
    return np.concatenate([np.empty((0, 3)), *moved])


def _in_view(points: Floats, right: Floats, up: Floats, forward: Floats) -> Floats:
    """Return points (n, 3) as (right, up, depth): their products with three unit vectors."""
    # Not by a matrix product, which BLAS rounds differently for different numbers of points.
    x, y, z = points.T
    return np.stack([x * a[0] + y * a[1] + z * a[2] for a in (right, up, forward)], axis=1)


def _eye_before(points: Floats, slopes: Floats) -> Floats:
    """Return the deepest eye that sees all `points` (n, 3); all are (right, up, depth).

    `slopes` are the largest |right| / depth and |up| / depth that an eye sees. The points fill the
    picture in one direction, right or up; in the other, which leaves room, they are centred.
    """
    sides, depth = points[:, :2], points[:, 2]
    first = (sides - slopes * depth[:, None]).max(axis=0)
    last = (sides + slopes * depth[:, None]).min(axis=0)
    # An eye at e and depth d sees a point if |side - e| <= slope * (depth - d), so for all points
    # e - slope * d >= first and e + slope * d <= last. For the deepest eye, both are equalities.
    middle, deepest = 0.5 * first + 0.5 * last, (0.5 * last - 0.5 * first) / slopes
    near = float(deepest.min())
    # `roomy` is the direction, 0 or 1, in which the eye could be nearer.
    roomy = 1 - int(deepest.argmin())
    distance = depth - near
    if float(distance.min()) > 0.0:
        for _ in range(ROUNDS):
            across = (sides[:, roomy] - middle[roomy]) / distance
            low, high = int(across.argmin()), int(across.argmax())
            # Move the outermost two points to equal distances from the centre of the picture.
            off_centre = across[low] + across[high]
            middle[roomy] += off_centre / (1.0 / distance[low] + 1.0 / distance[high])
    return np.array([middle[0], middle[1], near])


def _vertices(tree: Any) -> Floats:
    """Return the vertices that a tree's faces use, or the corners of its bounds."""
    if not hasattr(tree, "faces"):
        return corners_of(tree.bounds)
    used = np.zeros(len(tree.vertices), np.bool_)
    used[tree.faces] = True
    return np.asarray(tree.vertices if used.all() else tree.vertices[used])


def corners_of(bounds: Floats) -> Floats:
    """Return the corners (8, 3) of a box (2, 3), in ascending order of (x, y, z)."""
    return np.stack(np.meshgrid(*bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)


def of_opencv(
    intrinsics: ArrayLike, extrinsics: ArrayLike, distortion: ArrayLike | None, raster: Raster
) -> Geometry:
    """Return the geometry of an OpenCV camera; check the arguments, as in `Camera.from_opencv`."""
    k = matrices.matrix("intrinsics", intrinsics, (3, 3))
    fixed = [k[1, 0], k[2, 0], k[2, 1], k[2, 2]]
    if fixed != [0.0, 0.0, 0.0, 1.0] or not (k[0, 0] > 0.0 and k[1, 1] > 0.0):
        expected = "[[fx, skew, cx], [0, fy, cy], [0, 0, 1]] with positive fx and fy"
        raise ValueError(f"intrinsics must be {expected}, got {k.tolist()}")
    pose = matrices.matrix("extrinsics", extrinsics, (3, 4), (4, 4))
    rot = pose[:3, :3]
    with np.errstate(over="ignore", invalid="ignore"):
        rigid = np.abs(rot @ rot.T - np.eye(3)).max() < RIGID_SLACK and np.linalg.det(rot) > 0.0
    if not rigid or pose[3:].tolist() not in ([], [[0.0, 0.0, 0.0, 1.0]]):
        raise ValueError(f"extrinsics must be a rotation and a translation, got {pose.tolist()}")
    if distortion is not None and not np.all(reals("distortion", distortion) == 0.0):
        raise ValueError("distortion must be zero: undistort the pixels first")
    x, y, w = product(scaled(k.tolist())[0], scaled(pose[:3].tolist())[0])
    # The centre of OpenCV's pixel (0, 0) is at (0, 0), ours at (0.5, 0.5): x / w becomes
    # x / w + 1 / 2 = (2 x + w) / (2 w).
    x, y = (tuple([2 * a + b for a, b in zip(row, w, strict=True)]) for row in (x, y))
    rows = matrices.picture_rows([x, y, times(2, w)], raster)
    return matrices.pinhole("intrinsics", *rows)


def matrices_of_vtk(source: Any, size: Any) -> tuple[Floats, Floats, tuple[int, int]]:
    """Return (view, projection, (width, height)) of a camera of VTK or PyVista.

    Both matrices are (4, 4), for OpenGL's clip space. `source` and `size` are those of
    `Camera.from_pyvista`.
    """
    lens = getattr(source, "camera", source)
    if not hasattr(lens, "GetProjectionTransformMatrix"):
        kind = type(source).__name__
        raise TypeError(f"source must be a plotter or camera of pyvista or VTK, got {kind}")
    size = getattr(source, "window_size", None) if size is None else size
    if size is None:
        raise ValueError("size must be the width and the height of the picture, got None")
    if not isinstance(size, tuple | list | np.ndarray) or len(size) != 2:
        raise ValueError(f"size must be a width and a height, got {size!r}")
    width, height = whole_number("width", size[0]), whole_number("height", size[1])
    # Depths of the near and the far plane in clip space are -1 and 1, as in OpenGL.
    to_clip_space = lens.GetProjectionTransformMatrix(width / height, -1.0, 1.0)
    view, projection = (
        np.array([[matrix.GetElement(i, j) for j in range(4)] for i in range(4)])
        for matrix in (lens.GetModelViewTransformMatrix(), to_clip_space)
    )
    return view, projection, (width, height)


def of_trimesh(
    source: Any, transform: ArrayLike | None, y: YDirection, pixel_ratio: float
) -> tuple[Geometry, Raster]:
    """Return (geometry, raster); check the arguments, which are as in `Camera.from_trimesh`."""
    lens = source
    if hasattr(source, "camera_transform"):
        # The camera first: a scene without one creates it then, together with its transform.
        lens = source.camera
        transform = source.camera_transform if transform is None else transform
    if not (hasattr(lens, "resolution") and hasattr(lens, "fov")):
        raise TypeError(f"source must be a trimesh scene or camera, got {type(source).__name__}")
    width, height = (int(n) for n in lens.resolution)
    raster = Raster.checked(width, height, y, pixel_ratio)
    with np.errstate(all="ignore"):
        focal, fov = reals("focal", lens.focal), reals("fov", lens.fov)
    if not ((focal > 0.0) & (focal < np.inf) & (fov > 0.0) & (fov < 180.0)).all():
        expected = "a field of view between 0 and 180 degrees"
        raise ValueError(f"source must have {expected}, got {fov.tolist()}")
    to_world = np.eye(4) if transform is None else transform
    a, b, c, _ = matrices.inverse(matrices.affine("transform", to_world))
    ((fx, fy),), scale = scaled([focal.tolist()])
    # The camera looks along -z, so the depth is -back, with y up: the pixel x / w is
    # fx right / depth + width / 2, and v / w is -fy up / depth + height / 2. All rows are times
    # 2 scale, to be integers; fx and fy are already times scale.
    x = tuple([2 * fx * right - scale * width * back for right, back in zip(a, c, strict=True)])
    v = tuple([-2 * fy * up - scale * height * back for up, back in zip(b, c, strict=True)])
    w = times(-2 * scale, c)
    return matrices.pinhole("transform", *matrices.picture_rows([x, v, w], raster)), raster
