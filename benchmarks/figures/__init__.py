"""Figures of a run: rows, tables, comparisons and charts."""
