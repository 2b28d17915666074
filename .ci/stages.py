"""Pictures of the stages for the page "How it works": python .ci/stages.py writes them."""

from pathlib import Path

BLUE, ORANGE, GREEN, RED, BAND = "#3b6fb6", "#e08a2e", "#3a9a5b", "#c0443c", "#f6dcc0"
NODES = [(20 + 180 * (i + 0.5) / 2**k, 20 + 28 * k, k) for k in range(4) for i in range(2**k)]
TRIANGLE = "80,130 210,30 260,140 80,130"
ENDS = [(330, 45, 350, 60), (350, 120, 420, 70), (420, 140, 470, 110), (480, 30, 440, 45)]


def line(points: str, colour: str = "#888", width: int = 1) -> str:
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def box(x: float, y: float, w: float, h: float, colour: str = BLUE, words: str = "") -> str:
    place = f'x="{x}" y="{y}" width="{w}" height="{h}" rx="3"'
    shape = f'<rect {place} fill="{colour}" fill-opacity="0.2" stroke="{colour}"/>'
    return f'{shape}<text x="{x + w / 2}" y="{y + h - 7}" text-anchor="middle">{words}</text>'


STAGES = {
    "build": "".join(line("{},{} {},{}".format(*a[:2], *b[:2])) for i, a in enumerate(NODES[:7])
                     for b in NODES[2 * i + 1 : 2 * i + 3])
    + "".join(box(x - 5, y - 5, 10, 10, GREEN if k > 2 else BLUE) for x, y, k in NODES)
    + "".join(box(x, 40, 40, 24) + box(x, 66, 40, 24, GREEN) for x in (290, 335, 380, 425)),
    "rays": box(110, 45, 60, 60) + "".join(line(f"9,70 190,{y}", ORANGE) for y in range(40, 99, 9))
    + "".join(line(f"{a},{b} {c},{d}", ORANGE) + box(c - 8, d - 12, 40, 24) for a, b, c, d in ENDS),
    "filter": line(TRIANGLE, BAND, 14) + line(TRIANGLE, BLUE) + "".join(
        box(x - 4, y - 4, 8, 8, colour) + box(330, z, 150, 24, colour, words)
        for x, y, z, colour, words in ((40, 45, 30, RED, "surely missed"),
        (140, 76, 60, ORANGE, "decided exactly"), (180, 95, 90, GREEN, "surely hit"))),
    "scenes": box(55, 10, 390, 24, BLUE, "TLAS") + "".join(
        line(f"{x},34 {x},62") + box(x - 45, 62, 90, 24, GREEN, "instance")
        + line(f"{x},86 {to},116") + box(to - 45, 116, 90, 24, BLUE, "BLAS")
        for x, to in ((100, 170), (250, 170), (400, 380))),
}  # fmt: skip
HEAD = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 150" font-size="13">'
for name, shapes in STAGES.items():
    path = Path(__file__).parents[1] / "bvh" / "examples" / "stages" / f"{name}.svg"
    path.write_text(f'{HEAD}<rect width="520" height="150" fill="#fff"/>{shapes}</svg>\n')
