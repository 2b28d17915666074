"""Modification counters of trees and scenes in this process.

A scene refers to trees and other scenes, which can change independently. Instead of checking each
of them before every ray, it compares one number; only if that has changed does it look for the
change.
"""

import itertools


class Changes:
    """Modification counters: `count` differs after each change, `trees` after those of trees."""

    __slots__ = ("_numbers", "count", "trees")

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self.count = self.trees = 0

    def note(self) -> None:
        """Count a change of a tree, after it."""
        self.trees = next(self._numbers)
        self.note_scene()

    def note_scene(self) -> None:
        """Count a change of a scene, after it."""
        # No two notes share a number, so two threads cannot hide each other's.
        self.count = next(self._numbers)


changes = Changes()
