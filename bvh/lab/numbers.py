"""Doubles as the ray lab's text fields hold them: to the last digit, in and out."""

from __future__ import annotations

from collections.abc import Iterable

from bvh.lab.words import number


def text_of(numbers: Iterable[float]) -> str:
    """Return numbers with commas, each in the fewest digits that tell it from all others."""
    return ", ".join(map(number, numbers))


def numbers_of(name: str, text: str, count: int) -> tuple[float, ...]:
    """Read numbers: decimal, hexadecimal (0x1.8p-3), inf; -0.0 keeps its sign.

    Raises
    ------
    ValueError
        If there are not so many, or one is none; the message names the field.
    """
    words = text.replace(",", " ").split()
    if len(words) != count:
        raise ValueError(f"{name} takes {count} numbers, got {len(words)}")
    return tuple(_double(name, word) for word in words)


def _double(name: str, word: str) -> float:
    try:
        return float.fromhex(word) if "0x" in word.lower() else float(word)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: {word!r} is no number") from None
