"""Lanes of a box record."""

# Lanes of a record: -x -y -z of the lower corner, id, x y z of the upper corner, unused. The last
# lane of a bin counts its records.
WIDTH, ID, UPPER, COUNT = 8, 3, 4, 7

# Ids are stored with this added, below 2**30 + 2**29: as float32 these bits are normal numbers,
# and so are their squares. Operations on all lanes take three times as long with subnormal ones.
FIRST_ID = 1 << 29

# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100
