"""runtime/cache."""
