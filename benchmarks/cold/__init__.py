"""First calls: the wait before the first answer of a fresh process."""
