"""The command `bvh`.

Each file imports only from those above it.

| file | contents |
|---|---|
| `camera_options.py` | Options of commands that describe a camera |
| `console.py` | Output of commands: lines, tables, JSON, progress bars |
| `compiling.py` | Compilation of kernels by other processes: `bvh warmup` |
| `files.py` | Files of commands: meshes, scenes, saved trees and scenes, rays and hits |
| `show_commands.py` | `bvh render`, `view`, `demo` and `lab`: pictures, and pages in the browser |
| `check_command.py` | `bvh check`: pairs of instances that touch or overlap, for people and for scripts |
| `cli.py` | The command line: info, build, partition, cast, render, view, demo, lab, ... |
"""
