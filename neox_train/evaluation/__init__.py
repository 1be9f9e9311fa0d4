"""Held-out loss, yardsticks and sampled text of an exported model."""
