"""What has changed in this process: how a scene learns that it is no longer as it was.

Scenes hold trees and other scenes, which can be changed without them. Instead of asking each of
them before every ray, a scene compares one number; only where that has changed does it look for
what it concerns.
"""

from __future__ import annotations

import itertools


class Changes:
    """Numbers that are others after each change; larger or smaller does not matter.

    Attributes
    ----------
    count : int
        Of whatever a scene can hold: trees and scenes.
    trees : int
        Of trees alone.
    """

    __slots__ = ("_numbers", "count", "trees")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.count = self.trees = 0

    def note(self) -> None:
        """Tell that a tree has changed, after it has."""
        self.trees = next(self._numbers)
        self.count = next(self._numbers)

    def note_scene(self) -> None:
        """Tell that a scene has changed, after it has."""
        # No two notes share a number, so two threads cannot hide each other's.
        self.count = next(self._numbers)


changes = Changes()
