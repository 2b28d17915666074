"""geometry/arithmetic."""
