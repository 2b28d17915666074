"""Options of picks and selections."""

from typing import NamedTuple, get_args

from bvh.queries.tree_queries import RegionMode, Selected
from bvh.runtime.arguments import check_option, thread_count, whole_number


class PickOptions(NamedTuple):
    """Options as in `Scene.pick` and `Scene.pick_rect`; the latter checked by `for_selection`."""

    mask: int | None = None
    threads: int | None = 1
    what: Selected = "faces"
    mode: RegionMode = "touching"
    visible_only: bool = False
    samples: int = 1

    @property
    def want_inside(self) -> bool:
        """Whether all of a face or instance has to be in the region."""
        return self.mode == "inside"

    def for_selection(self) -> "PickOptions":
        """Return the options, checked, with a number of threads."""
        check_option("what", self.what, get_args(Selected))
        check_option("mode", self.mode, get_args(RegionMode))
        samples = whole_number("samples", self.samples)
        return self._replace(samples=samples, threads=thread_count(self.threads))
