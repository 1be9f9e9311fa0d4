"""The planner: layouts of a run, searched for the fastest that fits."""
