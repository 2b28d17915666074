"""Fields of records: read and written where their layout says, and nowhere else."""

from __future__ import annotations

import numpy as np

from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import WIDTH, field, rows, splat_rows
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.rays import slots

SIZE = 16 * WIDTH

number, set_number = field(np.float32, 3)
count, set_count = field(np.int32, 5)
word, set_word = field(np.int64, 6)
corner, set_corner = field(np.float64, 8, 10, 12)
one, lanes, set_lanes = rows(np.float32, 0)
ids, _, set_ids = rows(np.int32, 2 * WIDTH)
_, pairs, set_pairs = rows(np.float32, 3 * WIDTH, 5 * WIDTH)
first, both = splat_rows(0), splat_rows(3, 5)


@entry
def write_record(slots, at):
    """Write the fields of the record at an index."""
    memory = as_pointers(slots).memory
    set_number(memory, at, 0.1)
    set_count(memory, at, np.int64(-7))
    set_word(memory, at, np.int64(1) << 40)
    set_corner(memory, at, (1, 2.5, np.float32(-3.0)))
    return number(memory, at), count(memory, at), word(memory, at), corner(memory, at)


@entry
def copy_rows(slots):
    """Copy rows as lanes and as numbers."""
    memory = as_pointers(slots).memory
    x, y = pairs(memory, 0, WIDTH)
    set_lanes(memory, WIDTH, x + y)
    set_pairs(memory, 4 * WIDTH, both((memory, np.int64(WIDTH))))
    set_lanes(memory, 2 * WIDTH, first((memory, np.int64(WIDTH))))
    set_ids(memory, 1, 2**32 + 9)
    return one(memory, 3), ids(memory, 1)


def test_numbers_of_a_record() -> None:
    """Of all types, narrowed when they are written; integers come back as int64."""
    memory = np.zeros(SIZE, np.float32)
    at, scratch = 16, slots.Slots(memory, np.empty(0, np.int64))
    read = write_record(scratch, at)
    assert read == (np.float32(0.1), -7, 1 << 40, (1.0, 2.5, -3.0))
    assert memory[at + 3] == np.float32(0.1)
    assert memory.view(np.int32)[at + 5] == -7
    assert memory.view(np.int64)[(at + 6) // 2] == 1 << 40
    assert memory.view(np.float64)[(at + 8) // 2 :][:3].tolist() == [1.0, 2.5, -3.0]
    used = [at + k for k in (3, 5, 6, 7, *range(8, 14))]
    assert not np.delete(memory, used).view(np.int32).any()


def test_rows_of_lanes() -> None:
    """Lanes are read and written side by side; a ray's number is copied into all of them."""
    memory = np.arange(SIZE, dtype=np.float32)
    before = memory.reshape(-1, WIDTH).copy()
    read = copy_rows(slots.Slots(memory, np.empty(0, np.int64)))
    after = memory.reshape(-1, WIDTH)
    assert read == (3.0, 9)
    assert (after[1] == before[3] + before[5]).all()
    assert (after[2, 2:] == 0.0).all() and (after[7] == 3 * WIDTH).all()
    assert (after[9] == 5 * WIDTH).all()
    assert (after[[0, 3, 4, 5, 6, 8]] == before[[0, 3, 4, 5, 6, 8]]).all()
