"""picking."""
