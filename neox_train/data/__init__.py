"""Corpus readers, tokenizers, the HDF5 token store, and the order in which training reads it."""
