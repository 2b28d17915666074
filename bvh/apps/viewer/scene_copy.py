"""Copy of a scene that shares its trees, for pages, while other threads change the scene."""

import threading
from copy import copy

from bvh.scene.scene import Scene
from bvh.tree.changes import changes


class SceneCopy:
    """A copy, `scene`, of the scene `source`; the method `follow` applies changes of the source.

    A scene must not be changed while it is queried. Pages query the copy instead, with `lock` held.
    `version` differs after each change, also of shared trees. `hidden` has the ids of the outermost
    instances that pages hide.
    """

    def __init__(self, source: Scene) -> None:
        self.source, self.lock = source, threading.RLock()
        self.scene: Scene
        self.hidden: set[int] = set()
        self.version = 0
        # At the last update: the counts of all changes and of changes of trees, and the source's
        # revision. An empty revision makes `follow` copy the scene anew.
        self._seen = self._deformed = -1
        self._revision: tuple[int, ...] = ()
        self.follow()

    def hide(self, instance_id: int) -> None:
        """Hide an instance in the copy, or show it again if it is hidden."""
        with self.lock:
            self.hidden ^= {instance_id}
            self._seen, self._revision = -1, ()  # Copy the scene anew.
            self.follow()

    def follow(self) -> None:
        """Apply changes of the source to the copy; they, and changes of trees, raise `version`."""
        with self.lock:
            if self._seen == changes.count:
                return
            # The count is read first, so that changes during the update are noticed next time.
            self._seen, deformed, revision = changes.count, changes.trees, self.source.revision
            if revision != self._revision:
                # Apply the changes; copy anew where that fails, or without a revision.
                if not (self._revision and self.scene.follow(self.source, self._revision)):
                    self.scene = copy(self.source)
                for number in self.hidden:
                    if number in self.scene and self.scene[number].visible:
                        self.scene.set_visible(number, False)
            self.version += (revision, deformed) != (self._revision, self._deformed)
            self._revision, self._deformed = revision, deformed
