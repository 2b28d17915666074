"""How kernels are compiled, called and run: Numba's options, arguments, threads.

Each file imports only from those above it.

| file | contents |
|---|---|
| `registry.py` | Functions of upper folders for lower ones, enrolled by name; optional libraries |
| `cpus.py` | CPUs that this process may use: affinity, the quota of its container, BVH_NUM_THREADS |
| `foreign_arrays.py` | Arrays of other libraries: detection, conversion, and queries of them |
| `memory.py` | Memory of arrays: aligned, mapped where it is large, reused; scratch of threads |
| `arguments.py` | Checks of public arguments: types, shapes and ranges, once, before any kernel runs |
| `caller_warnings.py` | Warnings at the line of the caller, outside of this package and of libraries between |
| `interrupts.py` | Ctrl-C where Python would lose it: in callbacks of foreign code and in finalizers |
| `forks.py` | Forks of a process that compiles: no child starts with a lock that is never released |
| `progress_bars.py` | The `progress` argument of public functions, as a callback of (done, total) |
| `threads.py` | Threads of builds and batches: one pool, chunks of work, progress, interruption |
| `cache/` | Where compiled kernels are stored on disk: sources, trusted folders, files, locks |
| `compiler/` | How Numba compiles kernels, for which CPU, and when a stored kernel is valid |
| `jit.py` | Decorators that compile kernels, with every Numba option of the package, and `warmup` |
| `simd/` | SIMD vectors: a few lanes of one type, and the operations on them that kernels need |
| `tuple_references.py` | Tuples of arrays and pointers inside kernels: as pointers, by reference, without counting |
| `calls/` | How kernels are called: as functions of words, compiled here or linked ahead of time |
"""
