"""Scripts that measure what docs/performance.md says."""
