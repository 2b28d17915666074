"""How kernels are called: as C functions of words in memory, compiled here or linked ahead of time.

CONTRIBUTING.md, "How kernels are called", describes the way of a call through these files.

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
