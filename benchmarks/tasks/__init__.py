"""Tasks: what is asked, how answers are checked, and how they are timed."""
