"""Where compiled kernels are stored on disk: sources, trusted folders, files, locks.

Each file imports only from those above it.

| file | contents |
|---|---|
| `plain_files.py` | Files opened by their own names, never through a link; locks; the starting folder |
| `kernel_sources.py` | The sources that machine code is made of, and hashes of them |
| `kernel_folders.py` | Trusted folders of compiled kernels, and where they are |
| `kernel_files.py` | Files of compiled kernels and of lowered helpers |
| `head_start.py` | A kernel that another process compiles while this one prepares to call it |
"""
