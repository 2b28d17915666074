"""The command `bvh`.

Each file imports only from those above it.

| file | contents |
|---|---|
| `camera_options.py` | Options that describe a camera, and the decorator that adds them to a command |
| `compiling.py` | Parallel compilation: all kernels compiled by several processes |
| `ahead.py` | Compilation ahead: a child process compiles kernels of rays while this one reads and builds |
| `console.py` | Output of commands: lines, tables, JSON, progress bars |
| `openings.py` | Input files of commands: meshes, scenes, and saved trees and scenes |
| `pick_command.py` | `bvh pick`: picks under a cursor, and selections in a rectangle of the picture |
| `ray_files.py` | Files of rays and hits, as the command line reads and writes them |
| `render_command.py` | `bvh render` and `bvh plot`: pictures, the numbers behind them, and charts of trees |
| `view_command.py` | `bvh view` and `bvh lab`: pages in the browser |
| `warmup_command.py` | `bvh warmup`: compilation of all kernels, for one level of CPUs or more |
| `cli.py` | The command line: info, stats, build, cast, render, plot, pick, view, lab, bench, warmup |
"""
