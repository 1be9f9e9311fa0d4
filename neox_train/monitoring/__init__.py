"""Metrics, provenance, plots and the report."""
