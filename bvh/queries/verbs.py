"""Declarations of queries: their arrays, their results, and how answers of parts become one.

A query is declared once, by `verb` upon its method. Dask arrays, arrays of other libraries, meshes
in parts and the command line read the declaration; its options are those of the signature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from inspect import signature, unwrap
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Types of the columns of results by name; `prim_id` is int64 in results of meshes in parts.
COLUMN_TYPES: dict[str, type[np.generic]] = {
    "t": np.float64, "distance": np.float64, "position": np.float64, "prim_id": np.int32,
    "u": np.float64, "v": np.float64, "front": np.bool_, "instance_id": np.int32, "leaf": np.int32,
    "nodes": np.int32, "tests": np.int32,
}  # fmt: skip

# The array arguments of queries of rays, with the shape that each has for one ray.
RAY_ARRAYS: dict[str, tuple[int, ...]] = {
    "origins": (3,), "directions": (3,), "t_min": (), "t_max": (), "mask": (),
}  # fmt: skip

Query = TypeVar("Query", bound=Callable[..., object])
# Columns of results that only scenes have, or only queries that count costs.
SCENE_COLUMNS, COST_COLUMNS = ("instance_id", "leaf"), ("nodes", "tests")


class Merge(Enum):
    """How answers of several parts of a mesh become one."""

    LEAST = "the answer with the least (t or distance, prim_id), or the first k of these"
    ANY = "whether any answer is true"
    LOWEST = "the lowest answer, a number"
    SUM = "the sum of all answers"
    LISTS = "the entries of all answers, query by query in order, or the first few of each query"


@dataclass(frozen=True, eq=False)
class Verb:
    """Declaration of a query."""

    query: Callable[..., object]  # the method, whose explicit signature has the options
    arrays: dict[str, tuple[int, ...]]  # its arrays: the shape for one query; -1 for any size
    # The type of a result that is one array, or the class of the result.
    returns: type[np.generic] | type[DataclassInstance]
    merge: Merge | None = None  # how answers of parts become one; None: by other queries

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.query.__name__

    @property
    def options(self) -> list[str]:
        """The names of the arguments that are no arrays, without `self`."""
        return [name for name in signature(self.query).parameters if name not in self.arrays][1:]

    @property
    def record(self) -> type[DataclassInstance] | None:
        """The class of a result; None where it is one array."""
        return None if issubclass(self.returns, np.generic) else self.returns

    def columns(
        self, in_scene: bool = False, counted: bool = False, id_type: type[np.generic] = np.int32
    ) -> dict[str, type[np.generic]]:
        """Return the names of a result's columns, in order, with their types.

        `in_scene` includes columns that only scenes have, `counted` those of costs; `id_type` is
        that of `prim_id`.
        """
        if issubclass(self.returns, np.generic):
            return {self.name: self.returns}
        left_out = (() if in_scene else SCENE_COLUMNS) + (() if counted else COST_COLUMNS)
        names = [field.name for field in fields(self.returns)]
        return {
            name: id_type if name == "prim_id" else COLUMN_TYPES[name]
            for name in names if name in COLUMN_TYPES and name not in left_out
        }  # fmt: skip


_declared: dict[Callable[..., object], Verb] = {}


def verb(
    arrays: dict[str, tuple[int, ...]], returns: type[np.generic] | type[DataclassInstance],
    merge: Merge | None = None,
) -> Callable[[Query], Query]:  # fmt: skip
    """Return a decorator that declares a query, and returns the method itself.

    The arguments are fields of `Verb`.
    """

    def declare(query: Query) -> Query:
        _declared[query] = Verb(query, arrays, returns, merge)
        return query

    return declare


def verb_of(query: Callable[..., object]) -> Verb | None:
    """Return the declaration of a function or method; None if it has none."""
    # Declarations are stored by the plain function, below a bound method and its decorators.
    return _declared.get(unwrap(getattr(query, "__func__", query)))
