"""`EmbreeDevice`, which does nothing."""


class EmbreeDevice:
    """Argument of `EmbreeScene`."""

    def __repr__(self) -> str:
        return "EmbreeDevice of bvh"
