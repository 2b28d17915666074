"""What a ray does at a leaf: a matter of what the leaf holds, and of what the ray looks for."""

from __future__ import annotations

from bvh.jit import by_type
from bvh.primitives import Triangles
from bvh.traversal.collecting import collect_solids, collect_triangles
from bvh.traversal.goals import Collected, Counted, Nearest, Ranked
from bvh.traversal.leaf_visits import visit_solids, visit_triangles
from bvh.traversal.ranking import rank_solids, rank_triangles

# For each goal, the test of triangles and that of all else.
LEAF_TESTS = {
    Nearest: (visit_triangles, visit_solids),
    Counted: (visit_triangles, visit_solids),
    Ranked: (rank_triangles, rank_solids),
    Collected: (collect_triangles, collect_solids),
}


def test_leaf(primitives, tree, block, query, r, rows, code, goal):
    """Test ray r, its numbers side by side in `rows`, against a leaf, to the goal's end."""


def _choose(primitives, tree, block, query, r, rows, code, goal):
    triangles, solids = LEAF_TESTS[goal.instance_class]
    return triangles if primitives.instance_class is Triangles else solids


by_type(test_leaf, inline=True)(_choose)
