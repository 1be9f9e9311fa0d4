"""neox-train: GPT-NeoX language models from raw text to an evaluated Hugging Face model, on Slurm or a laptop."""

__version__ = "0.1.0"
