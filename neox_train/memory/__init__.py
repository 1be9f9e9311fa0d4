"""What a run needs of memory, counted before it is submitted (no torch)."""
