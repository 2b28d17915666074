"""`bvh.partition`: cuts a mesh larger than memory into parts, each a tree in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.distributed.out_of_core.mesh_windows import WINDOW, GroupWindows, windows_of
from bvh.distributed.out_of_core.open_parts import byte_count
from bvh.distributed.out_of_core.part_splits import Grid, centroids, parts_of_cells
from bvh.distributed.out_of_core.parts import Parts
from bvh.distributed.part_folder import NewPartFolder, PartRecord, Source, new_folder
from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import ALL_BITS, MAX_ROWS, Quality, check_option, thread_count
from bvh.runtime.cache.plain_files import open_plain
from bvh.runtime.caller_warnings import warn_if_empty
from bvh.runtime.progress_bars import Progress, ProgressLike, heard
from bvh.tree.build import QUALITIES

# A triangle between passes: its corners, the numbers of its vertices, its id and its groups.
TRIANGLE = np.dtype(
    [("corners", "<f8", (3, 3)), ("vertex_ids", "<i8", 3), ("id", "<i8"), ("groups", "<u4")]
)

# Memory that a part takes while it is built, for each triangle, if triangles share no vertices.
BUILD_BYTES = 400
SMALLEST_MEMORY = 50_000_000

EMPTY_BOX = np.array([[np.inf] * 3, [-np.inf] * 3])

# From this depth on files are halved by id, not divided by centroids: of triangles at 1e-1, 1e-2,
# 1e-3 and so on, each grid would separate only two.
DEEPEST = 16


def partition(
    source: Any, folder: str | os.PathLike[str], *,
    groups: ArrayLike | str | os.PathLike[str] | None = None, memory: int | str = "2GB",
    quality: Quality = "medium", threads: int | None = None, progress: ProgressLike | None = None,
) -> Parts:  # fmt: skip
    """Cut a mesh of any size into parts, each a tree in a file of a folder.

    The mesh is never completely in memory. Triangles are assigned to parts by their centroids, at
    splits chosen by the surface area heuristic; none is clipped and none is in two parts, so that
    `Parts` answers bit for bit as one tree over all of it.

    Parameters
    ----------
    source : path, iterable of paths, or iterable of meshes
        Binary PLY and STL files are read in windows; other files, and meshes, one at a time. A mesh
        is whatever `BVH.from_mesh` takes, such as a pair (vertices, faces), or a tree, which may
        be mapped from a file. Triangles get ids in this order.
    folder : str or path-like
        A folder that is empty or does not exist yet, or a URL of fsspec, such as
        ``s3://bucket/city``.
    groups : int, array_like of int, shape (m,), or path, optional
        32 bits for each triangle, in the order of ids, or one number for all triangles. Queries
        select triangles by these bits with `mask` (see `BVH.from_triangles`). An array may be a
        memory map; a path is that of a .npy file, which is read in windows. By default, triangles
        of trees among the sources keep their bits, and all others have all bits set.
    memory : int or str
        Limit of memory in bytes, such as ``"500MB"`` or ``"2GiB"``, at least 50 MB, in addition to
        that of Python and its libraries. A part has at most one triangle for each 400 bytes of it.
    quality : {"medium", "high"}
        As in `BVH.from_triangles`.
    threads : int, optional
        Threads of builds; one for each CPU by default, -1 for all.
    progress : callable, bool or bar of tqdm, optional
        Called as progress(done, total) in triangles, each of which counts once in every pass. The
        total grows while the source is read.

    Returns
    -------
    Parts
        As ``bvh.load(folder, memory=memory)`` returns it.

    Raises
    ------
    FileExistsError
        If the folder has files in it.

    Notes
    -----
    While it runs, it uses up to 220 bytes of disk for each triangle in `folder`; the finished parts
    take some 100 bytes for each. For a URL, that space is needed in the folder for temporary files.
    Triangles that no grid separates, such as copies of one, are split by their ids. After an
    exception the folder is empty. After the process is killed, the folder has files left that must
    be removed, and `bvh.load` refuses it.

    Examples
    --------
    >>> import bvh, tempfile, trimesh
    >>> balls = (trimesh.creation.icosphere().apply_translation((3 * i, 0, 0)) for i in range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = bvh.partition(balls, folder, memory="64MB")
    ...     parts.closest_hit([-9.0, 0.0, 0.0], [1.0, 0.0, 0.0]).t
    8.0
    """
    budget = byte_count("memory", memory)
    if budget < SMALLEST_MEMORY:
        least = f"{SMALLEST_MEMORY // 10**6}MB"
        raise ValueError(f"memory must be at least {least}, got {memory!r}")
    check_option("quality", quality, QUALITIES)
    thread_count(threads)
    bits = None if groups is None else GroupWindows(groups)
    with heard(progress) as report, new_folder(folder) as target:
        steps = _Steps(report)
        spill = target.scratch / "all"
        box = EMPTY_BOX.copy()
        sources, grouped = _read(source, spill, box, steps, bits)
        records: list[PartRecord] = []
        # A tree counts vertices in 31 bits, and each triangle may have three of its own.
        largest = int(min(budget // BUILD_BYTES, MAX_ROWS // 3))
        for piece in _split(spill, largest, steps, box):
            records.append(_build(piece, target, len(records), quality, threads, grouped))
            steps.add(records[-1].triangles)
        target.publish(records, sources, quality)
    parts = Parts(folder, memory=budget)
    warn_if_empty(parts)
    return parts


class _Steps:
    """Progress, `done` of `total` triangles in all passes, passed to `report` if it is not None."""

    def __init__(self, report: Progress | None) -> None:
        self._report, self.done, self.total = report, 0, 0

    def add(self, count: int) -> None:
        """Add `count` triangles that a pass has finished, and report."""
        self.done += count
        if self._report is not None:
            self._report(self.done, max(self.total, self.done))


def _read(
    source: Any, spill: Path, box: NDArray[np.float64], steps: _Steps, given: GroupWindows | None
) -> tuple[list[Source], bool]:
    """Write all triangles to the file `spill`; return the sources, and whether any has groups.

    Groups are `given`, or None for those of trees among the sources. `box` (2, 3) is extended to
    contain all centroids.
    """
    names, firsts, count, grouped = list[str](), list[int](), 0, given is not None
    with open(spill, "xb") as file:
        for window in windows_of(source):
            if window.number == len(names):
                names.append(window.source)
                firsts.append(count)
            rows = np.empty(len(window.corners), TRIANGLE)
            rows["corners"], rows["vertex_ids"] = window.corners, window.vertex_ids
            rows["id"] = np.arange(count, count + len(rows))
            bits = window.groups if given is None else given.rows(count, len(rows))
            rows["groups"] = ALL_BITS if bits is None else bits
            grouped = grouped or bits is not None
            rows.tofile(file)
            _extend(box, window.corners)
            count += len(rows)
            # Each triangle is read here and, at the end, built.
            steps.total += 2 * len(rows)
            steps.add(len(rows))
    if given is not None:
        given.check_count(count)
    counts = np.diff([*firsts, count]).tolist()
    return list(map(Source, names, firsts, counts)), grouped


def _windows(path: Path, steps: _Steps) -> Iterator[NDArray[np.void]]:
    """Yield the triangles of a file, rows of TRIANGLE, in windows; count them as finished."""
    size = path.stat().st_size
    for offset in range(0, size, WINDOW * TRIANGLE.itemsize):
        window = np.fromfile(path, TRIANGLE, WINDOW, offset=offset)
        yield window
        steps.add(len(window))


def _split(
    spill: Path, largest: int, steps: _Steps, box: NDArray[np.float64] | None = None, depth: int = 0
) -> Iterator[Path]:
    """Distribute the triangles of a file to files of at most `largest`, and yield their paths.

    `box` is that of their centroids, computed first if it is None. `depth` counts divisions; from
    DEEPEST on, triangles are divided by id. Files that are not yielded are removed.
    """
    count = spill.stat().st_size // TRIANGLE.itemsize
    if count > largest:
        # In a call, so that its arrays are gone before parts are built.
        for path in _divided(spill, count, largest if depth < DEEPEST else count, steps, box):
            yield from _split(path, largest, steps, depth=depth + 1)
    elif count:
        yield spill


def _divided(
    spill: Path, count: int, largest: int, steps: _Steps, box: NDArray[np.float64] | None
) -> list[Path]:
    """Move the `count` triangles of a file to new files, by their centroids; return their paths."""
    # Every triangle counts once in each pass: grid, distribution and, without a box, the box.
    steps.total += 2 * count if box is not None else 3 * count
    if box is None:
        box = EMPTY_BOX.copy()
        for window in _windows(spill, steps):
            _extend(box, window["corners"])
    grid = Grid(*box)
    for window in _windows(spill, steps):
        grid.add(window["corners"])
    part_of = parts_of_cells(grid, largest)
    pieces = int(part_of.max()) + 1
    # With a single piece, all are in one cell or the depth is reached: take halves by id. Ids of a
    # file ascend.
    middle = np.fromfile(spill, TRIANGLE, 1, offset=count // 2 * TRIANGLE.itemsize)["id"][0]
    paths = [spill.with_name(f"{spill.name}-{number}") for number in range(max(pieces, 2))]
    for window in _windows(spill, steps):
        part = part_of[grid.cells_of(window["corners"])] if pieces > 1 else window["id"] >= middle
        _append(window, part.astype(np.int32), paths)
    spill.unlink()
    # A part may consist of cells without triangles, and has no file then.
    return list(filter(Path.exists, paths))


def _append(rows: NDArray[np.void], part: NDArray[np.int32], paths: list[Path]) -> None:
    """Append triangles, `rows`, to the files of their parts, in order: row i to paths[part[i]]."""
    order = np.argsort(part, kind="stable")
    numbers, starts = np.unique(part[order], return_index=True)
    for number, chosen in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        with open(paths[number], "ab", opener=open_plain) as file:
            rows[chosen].tofile(file)


def _extend(box: NDArray[np.float64], corners: NDArray[np.float64]) -> None:
    """Extend a box (2, 3) to contain the finite coordinates of centroids of triangles (n, 3, 3)."""
    with np.errstate(all="ignore"):
        middles = centroids(corners)
    for axis, column in enumerate(middles.T):
        finite = column[np.isfinite(column)]
        box[0, axis] = min(box[0, axis], finite.min(initial=np.inf))
        box[1, axis] = max(box[1, axis], finite.max(initial=-np.inf))


def _build(
    piece: Path, target: NewPartFolder, number: int, quality: Quality, threads: int | None,
    grouped: bool,
) -> PartRecord:  # fmt: skip
    """Build the tree of the triangles in the file `piece`; write it as part `number` of `target`.

    `grouped` says whether the part stores group bits. Returns the record of the part.
    """
    rows = np.fromfile(piece, TRIANGLE)
    piece.unlink()
    ids, points = rows["id"].copy(), rows["corners"].reshape(-1, 3)
    groups = rows["groups"].copy() if grouped else None
    # A vertex that several faces of the part share is stored once.
    _, first, corners = np.unique(rows["vertex_ids"], return_index=True, return_inverse=True)
    vertices, faces = points[first], corners.reshape(-1, 3).astype(np.int32)
    del rows, points, first, corners
    # A part may have no valid face.
    tree = BVH.from_triangles(
        vertices, faces, groups=groups, quality=quality, threads=threads, warn=False
    )
    return target.add(number, tree, ids)
