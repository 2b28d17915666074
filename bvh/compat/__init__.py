"""Drop-in replacements for interfaces of other libraries."""
