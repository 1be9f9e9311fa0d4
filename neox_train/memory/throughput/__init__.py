"""How long a training step takes, predicted from the cluster file's rates."""
