"""scene/files."""
