"""How Numba compiles kernels, for which CPU, and when a stored kernel is valid.

What the decorators of `jit.py` return are `Deferred` functions: the package is imported without Numba.
A kernel that is called for the first time, and that is not linked ahead of time, goes this way:

1. `deferred.py` activates: Numba is imported, all intrinsics and overloads are registered with it, and
   `dispatchers.py` makes the dispatcher of the kernel.
2. Numba asks `kernel_cache.py` for the kernel. It is loaded if a file of the folder has it; the folder
   is named by a fingerprint of all sources of kernels, versions, and the CPU (`cpu_levels.py`).
3. Otherwise `compilation.py` compiles it with the code generator of `code_generator.py`. `front_end.py`
   finds types, and each helper that the kernel calls is compiled on the way to LLVM's code, or taken
   from `stored_helpers.py`; then the kernel and all its helpers are linked, optimised, and emitted.
4. `kernel_cache.py` stores the machine code.

Each file imports only from those above it.

| file | contents |
|---|---|
| `compile_notice.py` | A line of text on the terminal, or in a notebook, while a kernel is compiled |
| `code_types.py` | Types of what intrinsics are written with, for annotations |
| `deferred.py` | Functions that Numba makes when they are first needed, so that imports do without it |
| `lazy_modules.py` | Modules of Numba and LLVM for code that runs when kernels are compiled |
| `cpu_levels.py` | The CPU that kernels are compiled for: a level that many CPUs share, or the host itself |
| `code_generator.py` | The code generator of kernels: a second one of Numba's, for another CPU |
| `kernel_cache.py` | Fingerprints of kernels, and the disk cache of them, with the interface of Numba's caches |
| `warming.py` | Parts of the package compiled by several processes |
| `front_end.py` | From bytecode to typed instructions: Numba's steps, without what no kernel needs |
| `compilation.py` | Numba pipelines of kernels: helpers are only lowered, an entry is optimised once, as a whole |
| `stored_helpers.py` | Helpers that another process, or another entry of this one, has lowered: they are only linked |
| `dispatchers.py` | Numba's dispatchers of kernels, compiled by these pipelines, or by Numba's where they fail |
"""
