"""Text fields of a ray lab state: numbers as text, exact to the last digit, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bvh.apps.lab.state import LabState, Vector

BOX_FIELDS = ("lower", "upper", "turn")


def number(x: float) -> str:
    """Return the shortest text that reads back as the same double."""
    text = repr(float(x))
    return text[:-2] if text.endswith(".0") and text != "-0.0" else text


def text_of(numbers: Iterable[float]) -> str:
    """Return numbers with commas between them, each as `number` writes it."""
    return ", ".join(map(number, numbers))


def numbers_of(name: str, text: str, count: int) -> tuple[float, ...]:
    """Read numbers: decimal, hexadecimal (0x1.8p-3), inf; -0.0 keeps its sign.

    Raises
    ------
    ValueError
        If their count is wrong or one is not a number; the message names the field.
    """
    words = text.replace(",", " ").split()
    if len(words) != count:
        raise ValueError(f"{name} takes {count} numbers, got {len(words)}")
    return tuple(_double(name, word) for word in words)


def texts_of(state: LabState) -> dict[str, str]:
    """Return the texts of all fields; names of the second box end in " 2"."""
    texts = {
        "origin": text_of(state.origin),
        "direction": text_of(state.direction),
        "t range": text_of((state.t_min, state.t_max)),
    }
    for box, suffix in zip(state.boxes, ("", " 2"), strict=False):
        texts |= {f"{part}{suffix}": text_of(getattr(box, part)) for part in BOX_FIELDS}
    return texts


def edited(state: LabState, name: str, text: str) -> LabState:
    """Return the state with one field changed.

    Raises
    ------
    ValueError
        If the text does not hold the field's numbers; the message names the field.
    """
    if name == "t range":
        t_min, t_max = numbers_of(name, text, 2)
        return replace(state, t_min=t_min, t_max=t_max)
    x, y, z = numbers_of(name, text, 3)
    vector: Vector = (x, y, z)
    if name == "origin":
        return replace(state, origin=vector)
    if name == "direction":
        return replace(state, direction=vector)
    part = name.removesuffix(" 2")
    if part == "turn" and not all(abs(degrees) <= 1e6 for degrees in vector):
        raise ValueError(f"turn must be finite degrees, got {text}")
    boxes = list(state.boxes)
    index = 1 if name.endswith(" 2") else 0
    boxes[index] = replace(boxes[index], **{part: vector})
    return replace(state, boxes=tuple(boxes))


def _double(name: str, word: str) -> float:
    try:
        return float.fromhex(word) if "0x" in word.lower() else float(word)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: {word!r} is not a number") from None
