"""Pictures of what rays hit."""
