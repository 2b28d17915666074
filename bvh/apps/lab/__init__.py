"""Ray lab: a page in the browser that shows ray-box intersection, exact and naive."""
