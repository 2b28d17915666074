"""`Interferences` of the instances of a scene: relation, shared volume, depth, where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bvh.queries.answers.result_bases import PerQuery, columns_of, listed_kinds

Reals = NDArray[np.float64]
# Relations of solids whose interiors meet.
OVERLAPPING = ("overlapping", "inside", "contains", "equal")
UNKNOWN = "unknown"
# Columns of the table that are numbers.
NUMBERS = ("volume", "depth", "distance")


@dataclass(frozen=True, eq=False, repr=False)
class Interferences(PerQuery):
    """Pairs of a scene's instances that are not clear of each other, ascending by their ids.

    ``str`` of it is a table, and `records` are plain values for JSON. Masks, as in
    ``found[found.volume > 1e-9]``, select rows.

    Attributes
    ----------
    relation : ndarray of str, shape (m,)
        Relation of the first instance to the second, as `BVH.relation` returns it; "unknown" where
        one of them is no solid, see `note`.
    volume : ndarray of float64, shape (m,)
        What they share, as of `BVH.overlap_volume`; 0 where they only touch. NaN where it is
        unknown, see `note`: also where a sphere or capsule overlaps the other.
    depth : ndarray of float64, shape (m,)
        As of `BVH.penetration`; 0 where they only touch. NaN where the relation is unknown, and
        where a sphere or capsule overlaps the other.
    distance : ndarray of float64, shape (m,)
        Distance of the surfaces where the relation is "unknown", or "touching" within a margin; 0
        for others. NaN where an instance is neither over triangles nor one sphere or capsule.
    position : ndarray of float64, shape (m, 2, 3)
        Where they meet, a point of each, in the order of the instances: their nearest points if
        they touch, the relation is unknown or one is a sphere or capsule; otherwise the deepest
        place of `BVH.penetration`, in one of them, and the point of the other's surface nearest to
        it. NaN if there are none.
    instance_id : ndarray of int32, shape (m, 2)
        The two instances, the lower id first.
    name : ndarray of str, shape (m, 2)
        Their names; empty for none.
    open_edges : ndarray of int64, shape (m, 2)
        Open edges of each; 0 of closed meshes and of one sphere or capsule, -1 of other instances
        that are not over triangles.
    oriented : ndarray of bool, shape (m, 2)
        Whether the faces of each are wound alike (see `BVH.is_oriented`).
    note : ndarray of str, shape (m,)
        Why something is unknown, or that both are the same; otherwise empty.

    Examples
    --------
    >>> import bvh, numpy as np, trimesh
    >>> scene, box = bvh.Scene(), bvh.BVH.from_mesh(trimesh.creation.box())
    >>> maps = np.tile(np.eye(4), (3, 1, 1))
    >>> maps[:, 0, 3] = 0.0, 0.75, 1.75
    >>> ids = scene.add_many(box, maps, ["a", "b", "c"])
    >>> found = scene.interferences()
    >>> found, found.volume.tolist(), found.overlaps.tolist()
    (Interferences(2 pairs of instances: 1 overlapping, 1 touching), [0.25, 0.0], [True, False])
    >>> found[~found.overlaps].records()[0]["names"]
    ['b', 'c']
    """

    relation: NDArray[np.str_]
    volume: Reals
    depth: Reals
    distance: Reals
    position: Reals
    instance_id: NDArray[np.int32]
    name: NDArray[np.str_]
    open_edges: NDArray[np.int64]
    oriented: NDArray[np.bool_]
    note: NDArray[np.str_]

    _more_axes: ClassVar = {
        "position": 2, "instance_id": 1, "name": 1, "open_edges": 1, "oriented": 1,
    }  # fmt: skip

    def __len__(self) -> int:
        """Return the number of pairs."""
        return int(np.size(self.relation))

    def __bool__(self) -> bool:
        """Return whether there are any pairs."""
        return len(self) > 0

    @property
    def overlaps(self) -> NDArray[np.bool_]:
        """True for pairs whose interiors meet, shape (m,); False where the relation is unknown."""
        return np.isin(self.relation, OVERLAPPING)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """True for all pairs, shape (m,): there are no misses."""
        return np.ones(np.shape(self.relation), np.bool_)

    def _rows(self) -> Self:
        """Return the same pairs, a single one, such as ``found[0]``, as a batch of one."""
        if np.ndim(self.relation):
            return self
        return type(self)(**{name: np.asarray(x)[None] for name, x in columns_of(self).items()})

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries of plain values, for JSON: None in place of NaN.

        Examples
        --------
        >>> import bvh, trimesh
        >>> scene, box = bvh.Scene(), trimesh.creation.box()
        >>> ids = scene.add(box), scene.add(box)
        >>> row = scene.interferences().records()[0]
        >>> row["instances"], row["names"], row["relation"], row["volume"]
        ([0, 1], [None, None], 'equal', 1.0)
        """
        rows, found = [], self._rows()
        for k in range(len(found)):
            row: dict[str, Any] = {
                "instances": found.instance_id[k].tolist(),
                "names": [name or None for name in found.name[k].tolist()],
                "relation": str(found.relation[k]),
            }
            for title in (*NUMBERS, "position"):
                values = getattr(found, title)[k]
                row[title] = values.tolist() if np.isfinite(values).all() else None
            row["open_edges"] = found.open_edges[k].tolist()
            row["oriented"] = found.oriented[k].tolist()
            rows.append(row | {"note": str(found.note[k]) or None})
        return rows

    def __str__(self) -> str:
        """Return a table as text: a line of titles, then a line for each pair."""
        lines: list[tuple[str, ...]] = [("first", "second", "relation", *NUMBERS, "at", "note")]
        found = self._rows()
        for k in range(len(found)):
            pair = zip(found.instance_id[k].tolist(), found.name[k].tolist(), strict=True)
            # Ids of instances, followed by their names, if any.
            first, second = (f"{number} {_printable(name)}".rstrip() for number, name in pair)
            numbers = [_formatted(getattr(found, title)[k]) for title in NUMBERS]
            place = found.position[k, 0]
            at = ", ".join(map(_formatted, place)) if np.isfinite(place).all() else "-"
            note = _printable(str(found.note[k]))
            lines.append((first, second, str(found.relation[k]), *numbers, at, note))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def __repr__(self) -> str:
        return f"Interferences({listed_kinds('pairs of instances', self.relation)})"


def _formatted(value: float) -> str:
    """Return a number as text of six digits; a dash for NaN."""
    return "-" if np.isnan(value) else f"{value:.6g}"


def _printable(text: str) -> str:
    """Return text with U+FFFD in place of each character that is not printable."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
