"""Numbers with names: query modes, what is known of rays, and their queues."""

import warp as wp

# Query modes: of rays; of points.
CLOSEST, ANY, COUNT, LIST = wp.constant(0), wp.constant(1), wp.constant(2), wp.constant(3)
NEAREST = wp.constant(4)

# A bit of triangles that are surely hit within the range of their ray.
SURELY, INDEX = wp.constant(1 << 30), wp.constant((1 << 30) - 1)
# What is known of a ray: it misses; is in a queue; hits some triangle; else the index of the one.
MISSED, LISTED, FOUND = wp.constant(-1), wp.constant(-2), wp.constant(-3)
# Queues of rays: to decide, by three means; to measure, by two more; with too many triangles; for
# the CPU.
DECIDE, DECIDE_NEAR, DECIDE_BY_SUMS = 0, 1, 2
MEASURE_NEAR, MEASURE_BY_SUMS = 3, 4
CROWDED, UNDECIDED = 5, 6
QUEUES, ALL_RAYS = 7, 7
NO_QUEUE, TO_DECIDE = wp.constant(-1), wp.constant(DECIDE)
TOO_MANY, FOR_CPU = wp.constant(CROWDED), wp.constant(UNDECIDED)

# The bottom of a stack of nodes; other codes below 0 are triangles.
DONE = wp.constant(-(2**31))
