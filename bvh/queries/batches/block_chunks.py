"""Chunks of the blocks of rays on threads: claimed by kernels, or shared with progress."""

from collections.abc import Callable
from functools import partial

from bvh.queries.query_arguments import RayOptions
from bvh.runtime.threads import share, share_claimed
from bvh.traversal.rays import ray_batch
from bvh.traversal.rays.blocks import BLOCK
from bvh.traversal.rays.ray_batch import Order

# Ray blocks that a thread takes at a time, at least and at most: enough to hide the cost of the
# call (some 20 us), few enough to balance threads and to notice Ctrl-C immediately. Where progress
# is reported, they are at most REPORTED_BLOCKS.
MIN_BLOCKS, MAX_BLOCKS, REPORTED_BLOCKS = 16, 512, 128
# Blocks of the last chunk that kernels claim, at least and at most: few, as a claim costs nothing.
MIN_LAST, MAX_LAST = 2, 4

# work(order, begin, end) traces the blocks begin..end-1 of an order.
Work = Callable[[Order, int, int], None]


def claim_blocks(order: Order, work: Work, threads: int) -> None:
    """Call work(order, begin, end) on all blocks of an order; several threads claim chunks."""
    count = blocks_of(order)
    if threads == 1:
        return share(count, MAX_BLOCKS, partial(work, order), threads)
    # With few blocks, even the last chunks of the threads are worth balancing.
    least = min(max(count // 16, MIN_LAST), MAX_LAST)
    # The range from 0 to 0 is empty: such a call traces only the chunks that its kernel claims.
    share_claimed(
        count, MAX_BLOCKS, least, partial(work, order),
        lambda queue, most: work(Order(*order[:4], queue, most), 0, 0), threads,
    )  # fmt: skip


def share_blocks(order: Order, total: int, work: Work, options: RayOptions) -> None:
    """Call work on chunks of the blocks of an order; report progress in rays, `total` of them."""
    count, progress = blocks_of(order), options.progress

    def report(finished: int, blocks: int) -> None:
        assert progress is not None
        progress(total * finished // max(blocks, 1), total)

    size, report_to = (MAX_BLOCKS, None) if progress is None else (REPORTED_BLOCKS, report)
    if progress is not None and options.threads == 1:
        size = min(size, max(count // 4, MIN_BLOCKS))  # to report a few times at least
    share(count, size, partial(work, order), options.threads, report_to, MIN_BLOCKS)


def blocks_of(order: Order) -> int:
    """Return the number of blocks of an order, rounded up: of BLOCK rays, or tiles of an image."""
    if order.row:
        rows = order.size // order.row
        return -(-rows // ray_batch.TILE_HEIGHT) * -(-order.row // ray_batch.TILE_WIDTH)
    return -(-order.size // BLOCK)
