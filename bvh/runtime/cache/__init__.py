"""Where compiled kernels are stored on disk, and when a stored one is valid.

Each file imports only from those above it.

| file | contents |
|---|---|
| `plain_files.py` | Files and folders opened by their own names, never through a link, and locks on open files |
| `starting_folder.py` | The working directory at the import of the package, to which relative settings refer |
| `kernel_sources.py` | The sources that machine code is made of, and hashes of them |
| `kernel_folders.py` | Trusted folders of compiled kernels, and where they are |
| `fingerprint.py` | Fingerprints of compiled kernels, and notes of them in folders of kernels |
| `kernel_files.py` | Files of compiled kernels and lowered helpers, and locks on kernels between processes |
| `kernel_cache.py` | The disk cache of compiled kernels, with the interface of Numba's caches |
"""
