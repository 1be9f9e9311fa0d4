"""The report: one self-contained HTML page about all runs of a pipeline file."""
