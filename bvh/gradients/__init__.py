"""Derivatives of hits, closest points and winding numbers, for PyTorch and JAX.

Each file imports only from those above it.

| file | contents |
|---|---|
| `searches.py` | Searches of a tree as functions of arrays, with the corners of the faces |
| `formulas.py` | Derivatives of a hit and of a closest point, for arrays of NumPy, PyTorch and JAX alike |
| `boundaries.py` | Derivatives of winding numbers, for arrays of NumPy, PyTorch and JAX alike |
| `queries.py` | Queries and results of `bvh.torch` and `bvh.jax`, for any library that can differentiate |
| `torch_functions.py` | The queries for PyTorch, with backward and forward derivatives |
| `jax_functions.py` | The queries for JAX, with derivatives |
"""
