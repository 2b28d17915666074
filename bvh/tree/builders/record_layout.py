"""Lanes of a box record."""

# Lanes of a record: -x -y -z of the lower corner, id, x y z of the upper corner, unused. The last
# lane of a bin counts its records.
WIDTH, ID, UPPER, COUNT = 8, 3, 4, 7

# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100
