"""GPT-NeoX in torch."""
