"""runtime/compiler."""
