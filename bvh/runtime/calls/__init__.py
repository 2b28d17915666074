"""How kernels are called: as C functions of words in memory, compiled here or linked ahead of time.

A call of an entry, `Entry.__call__`, tries the built-in functions made so far, one for each structure
of arguments (`invocation.py`). The first that recognises its structure writes the arguments as words
(`words.py`) and calls the kernel by its address. For a new structure, the address comes from the
library of the package (`linked.py`), or else from Numba, compiled or loaded (`compiler/`).
Single rays and points are too fast for that: `traversal.rays.one_ray` has built-in functions that read
the ray themselves (`python_calls.py`). Lists of hits and closest points have all words prepared: a call
writes only the numbers of its ray or point (`prepared_calls.py`).

Each file imports only from those above it.

| file | contents |
|---|---|
| `linked.py` | Kernels linked ahead of time: the library in the package, if it has one for this CPU |
| `python_calls.py` | Built-in functions that are kernels: they read and make Python's objects themselves |
| `words.py` | Kernels as C functions of one address: arguments and results are words of 8 bytes |
| `invocation.py` | The built-in function that takes arguments apart into words, and calls a kernel |
| `prepared_calls.py` | Calls of one kernel with arguments prepared as words, for single rays and points |
| `entries.py` | Kernels that Python calls, compiled or loaded for the types of their arguments |
| `user_calls.py` | Functions called by address: users' functions, so that kernels are not compiled for them |
"""
