"""`EmbreeDevice`, which does nothing."""


class EmbreeDevice:
    """What embreex makes scenes with."""

    def __repr__(self) -> str:
        return "EmbreeDevice of bvh"
