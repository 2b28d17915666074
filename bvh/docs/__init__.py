"""The pages of the documentation, and the programs that they show.

Each file imports only from those above it.

| file | contents |
|---|---|
| `programs/` | Programs to learn from, which are not installed with the package. |
"""
