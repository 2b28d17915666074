"""Loops of kernels: each is bounded by its data, never by numbers that converge."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import bvh
from tests.cases.parsed_files import nodes_of

FOLDER = Path(bvh.__file__).parent
DECORATORS = {"kernel", "inlined", "entry", "method", "alone", "by_type", "func"}
# Where functions without a decorator are compiled, too.
KERNELS = ("geometry", "traversal", "devices/exact", "devices/stages")

# The bound of every `while` that does not clear one bit of a mask in each round. A search for a
# number belongs here only as a `for` over a number of steps that is derived, as in
# `geometry/arithmetic/roots.py`.
BOUNDS = {
    "a stack or queue: each node, entry or range of a tree is on it once": """
        binary_nodes._split binned_sah.build_subtrees collapse._collapse collapse._open
        grid._split_cells
        instanced_rays._change_level instanced_rays._change_level meeting_pairs.split
        pair_walk.walk parity._near_face point_walks._walk_float32 point_walks._walk_float64
        points.point_search_function points.point_search_function points.search points.search
        region_search.search_regions search.search search.search search.search
        search.search_function search.search_function search.search_function
        single_rays._next_entry_in_tree single_rays.trace
        streams.advance streams.trace visits._visit winding_moments._widen
        winding_number._winding""",
    "the depth of a tree, from a node to its root or to a leaf": """
        binary_nodes._write_child binary_nodes._write_child building.fit_boxes building.join
        closest_pairs._descend_from
        invocation._take_apart tlas.move_boxes numbering._root
        oriented_boxes._measure overlap_terms._root""",
    "a counter that moves on, or a range that shrinks, in each round": """
        all_hits._sort all_hits._sort closest_hit._trace_blocks closest_pairs._test_collected
        closest_pairs._test_collected closest_pairs.closest_pairs grid._split_cells
        meeting_pairs.find_contacts points.point_search_function points.point_search_function
        points.search points.search polygons._sort python_calls._index_of
        python_calls.memory_of ray_batch.row_length region_search.search_regions
        search.search search.search_function shared_splits._close_gaps
        streams._test_leaves streams._test_leaves streams._test_node subtrees.may_choose
        winding_moments._widen""",
    "a hash table of which half is free": "numbering.match_rows",
    "insertion into a sorted list, from its end": """
        all_hits._sort binary_nodes._sort decide._insert leaf_hits._insert near_pairs.sort_collected
        point_bounds.push_near point_bounds.push_squares point_walks._insert""",
    "corners of a polygon: a linked list, and rounds after the fourth of which all are ears": """
        polygons._clip_ears polygons._is_ear""",
    "bits or limbs of a number, which is positive": """
        exact_sums._top_bit exact_sums._top_bit exact_sums.leading
        volumes.exact_sum""",
}


def _clears_bits(loop: ast.While) -> bool:
    """Tell whether a loop tests a mask and clears its lowest bit."""
    tested = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
    changed = {ast.unparse(line) for line in loop.body}
    return any(f"{name} &= {name} - 1" in changed for name in tested)


def _loops() -> Iterator[str]:
    """Yield the file and the function of each loop of a kernel that does not clear bits."""
    for path in sorted(FOLDER.rglob("*.py")):
        name = path.relative_to(FOLDER).as_posix()
        for function in nodes_of(path):
            if isinstance(function, ast.FunctionDef):
                words = {w for d in function.decorator_list for w in ast.unparse(d).split("(")}
                compiled = {w.split(".")[-1] for w in words} & DECORATORS
                if compiled or name.startswith(KERNELS):
                    for loop in ast.walk(function):
                        if isinstance(loop, ast.While) and not _clears_bits(loop):
                            yield f"{path.stem}.{function.name}"


def test_bounds_of_loops() -> None:
    """A new loop is listed with what bounds it, or counts its steps."""
    declared = Counter(name for names in BOUNDS.values() for name in names.split())
    assert Counter(_loops()) == declared
