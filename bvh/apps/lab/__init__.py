"""The ray lab: a page where a ray meets a box.

Each file imports only from those above it.

| file | contents |
|---|---|
| `state.py` | State of the ray lab: a ray and boxes, the exact answers, its numbers as text, and presets |
| `drawing.py` | Scene of the ray lab in the browser: boxes, planes, the ray, its crossings; points to drag |
| `naive.py` | Naive box tests, as they are often published, and their errors |
| `answers.py` | Answers of the ray lab as HTML: the exact one, its chart, and the naive ones |
| `page.py` | Page of the ray lab, its panels with numbers and answers, and `ray_lab`, which serves it |
"""
