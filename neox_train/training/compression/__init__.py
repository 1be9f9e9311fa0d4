"""What replicas exchange in place of whole gradients."""
