"""Modification counters of trees and scenes in this process.

A scene refers to trees and other scenes, which can change independently. Instead of checking each
of them before every ray, it compares one number; only if that has changed does it look for the
change.
"""

import itertools


class Changes:
    """Modification counters: `count` of all changes, and `trees` of changes of trees alone."""

    __slots__ = ("_numbers", "count", "trees")

    def __init__(self) -> None:
        """Begin at 0, before any change; changes are numbered from 1 on."""
        self._numbers = itertools.count(1)
        self.count = self.trees = 0

    def note(self) -> None:
        """Give new numbers to `trees` and `count`; called after a change of a tree."""
        self.trees = next(self._numbers)
        self.note_scene()

    def note_scene(self) -> None:
        """Give a new number to `count`; called after a change of a scene or tree."""
        # No two changes get the same number, so that threads cannot hide each other's changes.
        self.count = next(self._numbers)


changes = Changes()
