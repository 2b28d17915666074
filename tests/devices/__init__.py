"""Trees and scenes on Warp's CPU device, whose kernels are those of GPUs."""

import pytest

warp = pytest.importorskip("warp", reason="needs NVIDIA Warp")
# No banner in the output of tests.
warp.config.log_level = warp.LOG_ERROR
