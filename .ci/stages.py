"""Pictures of the stages for the page "How it works": python .ci/stages.py writes them."""

from pathlib import Path

BLUE, ORANGE, GREEN, RED, BAND = "#3b6fb6", "#e08a2e", "#3a9a5b", "#c0443c", "#f6dcc0"
NODES = [(20 + 180 * (i + 0.5) / 2**k, 20 + 28 * k, k) for k in range(4) for i in range(2**k)]
TRIANGLE = "80,130 210,30 260,140"
ENDS = [(310, 40, 336, 56), (330, 116, 400, 72), (410, 130, 462, 104), (494, 28, 440, 44)]
LANES = (290, 335, 380, 425)


def line(points: str, colour: str = "#888", width: int = 1, shape: str = "polyline") -> str:
    pen = f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"'
    return f'<{shape} points="{points}" {pen}/>'


def words(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>'


def box(x: float, y: float, w: float, h: float, colour: str = BLUE, text: str = "") -> str:
    """Return a box that hides what was drawn before."""
    place = f'x="{x}" y="{y}" width="{w}" height="{h}" rx="3"'
    shape = f'<rect {place} fill="#fff"/><rect {place} fill="{colour}" fill-opacity="0.2" '
    return f'{shape}stroke="{colour}"/>' + (words(x + w / 2, y + h - 7, text) if text else "")


STAGES = {
    "build": "".join(line("{},{} {},{}".format(*a[:2], *b[:2])) for i, a in enumerate(NODES[:7])
                     for b in NODES[2 * i + 1 : 2 * i + 3])
    + "".join(box(x - 5, y - 5, 10, 10, GREEN if k > 2 else BLUE) for x, y, k in NODES)
    + line("222,62 262,62") + line("256,57 262,62 256,67")
    + "".join(line(f"{x + 20},54 {x + 20},80") + box(x, 30, 40, 24) + box(x, 80, 40, 24, GREEN)
              + box(x + 9, 87, 10, 10, GREEN) + box(x + 21, 87, 10, 10, GREEN) for x in LANES)
    + words(110, 140, "a binary tree") + words(377, 140, "one wide node, and its leaves"),
    "rays": box(110, 35, 60, 60) + "".join(line(f"9,65 200,{y}", ORANGE) for y in range(38, 93, 9))
    + "".join(box(c - 8, d - 12, 40, 24) + line(f"{a},{b} {c},{d}", ORANGE) for a, b, c, d in ENDS)
    + words(110, 150, "a stream: one node for all")
    + words(400, 150, "single rays: a node for each"),
    "filter": line(TRIANGLE, BAND, 14, "polygon") + line(TRIANGLE, BLUE, 1, "polygon") + "".join(
        box(x - 4, y - 4, 8, 8, colour) + box(330, z, 150, 24, colour, text)
        for x, y, z, colour, text in ((80, 60, 38, RED, "surely missed"),
        (140, 80, 68, ORANGE, "decided exactly"), (185, 98, 98, GREEN, "surely hit"))),
    "scenes": box(55, 15, 390, 24, BLUE, "TLAS") + "".join(
        line(f"{x},39 {x},67") + box(x - 45, 67, 90, 24, GREEN, "instance")
        + line(f"{x},91 {to},121") for x, to in ((100, 175), (250, 175), (400, 400)))
    + box(130, 121, 90, 24, BLUE, "BLAS") + box(355, 121, 90, 24, BLUE, "BLAS"),
}  # fmt: skip
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 165" font-size="13"'
for name, shapes in STAGES.items():
    path = Path(__file__).parents[1] / "bvh" / "docs" / "stages" / f"{name}.svg"
    paper = ' font-family="sans-serif"><rect width="520" height="165" fill="#fff"/>'
    path.write_text(f"{HEAD}{paper}{shapes}</svg>\n")
