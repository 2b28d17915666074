"""Lanes of a box record."""

# Lanes of a record: -x -y -z of the lower corner, id, x y z of the upper corner, unused.
WIDTH, ID, UPPER = 8, 3, 4

# Narrower intervals of centres are not divided, because their scale could overflow.
NARROWEST = 2.0**-100
