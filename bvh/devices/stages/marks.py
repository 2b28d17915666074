"""Numbers with names: query modes, what is known of rays, and their queues."""

# Query modes: of rays; of points.
CLOSEST, ANY, COUNT, LIST = 0, 1, 2, 3
NEAREST = 4

# A bit of triangles that are surely hit within the range of their ray.
SURELY, INDEX = 1 << 30, (1 << 30) - 1
# What is known of a ray: it misses; is in a queue; hits some triangle; else the index of the one.
MISSED, LISTED, FOUND = -1, -2, -3
# Queues of rays: to decide, by three means; to measure, by two more; with too many triangles; for
# the CPU.
DECIDE, DECIDE_NEAR, DECIDE_BY_SUMS = 0, 1, 2
MEASURE_NEAR, MEASURE_BY_SUMS = 3, 4
CROWDED, UNDECIDED = 5, 6
QUEUES, ALL_RAYS, NO_QUEUE = 7, 7, -1

# The bottom of a stack of nodes; other codes below 0 are triangles.
DONE = -(2**31)
