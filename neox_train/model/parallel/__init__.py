"""Tensor and sequence parallelism: layers that hold a cut of each matrix, and the collectives between them."""
