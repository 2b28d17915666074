"""Libraries whose arrays queries take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases.libraries import NAMES, Arrays, library


@pytest.fixture(params=NAMES)
def arrays(request: pytest.FixtureRequest) -> Iterator[Arrays]:
    with library(request.param) as found:
        yield found


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("array_api_compat")
    return pytest.importorskip("torch")
