"""Other implementations of the same model under one hand-written loop."""
