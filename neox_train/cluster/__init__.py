"""Cluster facts, job submission and following (no torch at import)."""
