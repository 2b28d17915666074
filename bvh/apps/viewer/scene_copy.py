"""Copy of a scene that shares its trees, for pages, while other threads change the scene."""

import threading
from copy import copy

from bvh.scene.scene import Scene
from bvh.tree.changes import changes


class SceneCopy:
    """Copies of a scene: `scene` is the newest, replaced by `follow` after the scene has changed.

    A scene must not be changed while it is queried, so pages query a copy, which nothing changes.
    `version` differs after each change, also of shared trees. `hidden` has the ids of the outermost
    instances that pages hide. `lock` is held by what must see one copy from beginning to end.
    """

    def __init__(self, source: Scene) -> None:
        self.source, self.lock = source, threading.RLock()
        self.hidden: set[int] = set()
        self.version = 0
        self._seen = -1
        self._copied: tuple[tuple[int, ...], int] = (), -1
        self.follow()

    def hide(self, instance_id: int) -> None:
        """Hide an instance in the copy, or show it again if it is hidden."""
        with self.lock:
            self.hidden ^= {instance_id}
            self._seen, self._copied = -1, ((), -1)
            self.follow()

    def follow(self) -> None:
        """Copy the scene if it has changed."""
        with self.lock:
            if self._seen == changes.count:
                return
            # Later changes are noticed next time.
            self._seen, now = changes.count, (self.source.revision, changes.trees)
            if now == self._copied:
                return
            self.scene = copy(self.source)
            for number in self.hidden:
                if number in self.scene:
                    self.scene.set_visible(number, False)
            self._copied = now
            self.version += 1
