"""The DeepSpeed engine, optimizers, schedules and the training loop."""
