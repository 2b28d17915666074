"""Examples: programs with compiled user code inside the traversal, or around it."""
