"""Numbers with names: query modes, what is known of rays, and their queues."""

# Query modes: the closest hit, any hit, the number or the list of hits of a ray; for points.
CLOSEST, ANY, COUNT, LIST = 0, 1, 2, 3
NEAREST = 4

# A candidate is the index of a triangle, with the bit SURELY if it is surely hit in range.
SURELY, INDEX = 1 << 30, (1 << 30) - 1
# Outcome of a ray: a miss; candidates listed, not decided; a hit whose triangle is not needed, or a
# list of hits. From 0 on it is the index of the triangle that is hit.
MISSED, LISTED, FOUND = -1, -2, -3
# Queues of rays: to decide, by double-doubles, by a point nearby, by exact sums; to measure, by the
# latter two; with too many candidates; for the CPU.
DECIDE, DECIDE_NEAR, DECIDE_BY_SUMS = 0, 1, 2
MEASURE_NEAR, MEASURE_BY_SUMS = 3, 4
CROWDED, UNDECIDED = 5, 6
# The number of queues; in place of a queue, all rays of the work (see `decide.stage_of`), or none,
# for a ray that is done.
QUEUES, ALL_RAYS, NO_QUEUE = 7, 7, -1

# The bottom of a stack of nodes. Codes from 0 on are nodes, others are ~(first triangle of a leaf).
DONE = -(2**31)
