"""The number of lanes of a vector, and whether the CPU fuses multiplications with additions."""

from bvh.runtime.compiler.cpu_levels import chosen_target, natural_width, parsed

_target = chosen_target()
_features = parsed(_target.features)
# The number of float32 lanes that suits the CPU.
WIDTH = natural_width(_target)
# Whether one instruction computes a*b + c.
HAS_FMA = bool(_features.get("fma") or _features.get("neon"))
