"""Checkpoints: written whole, verified, retained, resumed; export to Hugging Face."""
