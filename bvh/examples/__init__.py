"""Programs in which a user's own compiled code works inside the traversal, or around it."""
