"""Pages in the browser."""
