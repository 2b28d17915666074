"""Pages in the browser that show scenes, and what rays make of them."""
