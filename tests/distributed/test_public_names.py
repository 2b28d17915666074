"""Public names of `bvh.distributed`, each imported when it is first used."""

from __future__ import annotations

import pytest

import bvh

pytest.importorskip("distributed")


@pytest.mark.parametrize("name", bvh.distributed.__all__)
def test_names_are_there(name: str) -> None:
    assert getattr(bvh.distributed, name).__name__ == name


def test_parts_are_those_of_the_package() -> None:
    assert bvh.distributed.Parts is bvh.Parts
