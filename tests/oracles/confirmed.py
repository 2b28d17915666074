"""Answers that rational arithmetic has confirmed, by digests of questions and answers together.

`confirmed.txt` has the digests. What is in it need not be compared again, as the same answer to the
same question is right; all else is. With BVH_CONFIRM=all everything is compared; with
BVH_CONFIRM=write what has passed is added to the file. To write it anew, remove it before.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("confirmed.txt")
SETTING = os.environ.get("BVH_CONFIRM", "")


def digest(*values: Any) -> str:
    """Return a digest of arrays, numbers and texts: of their types, shapes and bytes."""
    made = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        made.update(f"{array.dtype.str} {np.shape(value)} ".encode())
        made.update(array.tobytes())
    return made.hexdigest()[:24]


@lru_cache(maxsize=1)
def _digests() -> set[str]:
    return set(FILE.read_text().split()) if FILE.exists() else set()


def is_confirmed(case: str) -> bool:
    """Return whether a question with its answer has been compared before."""
    return not SETTING and case in _digests()


def confirm(case: str) -> None:
    """Add a question with its answer, which has just been compared, to the file if asked to."""
    if SETTING == "write" and case not in _digests():
        _digests().add(case)
        with FILE.open("a") as file:
            file.write(f"{case}\n")
