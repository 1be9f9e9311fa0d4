"""Keys of logs, monitors and profilers."""

from __future__ import annotations

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused


class LoggingKeys(BaseModel):
    """What is logged and where."""

    log_interval: int = implemented(100, "Steps between lines of metrics.jsonl.", ge=1)
    steps_per_print: int = implemented(10, "Steps between DeepSpeed's own lines.", ge=1)
    log_dir: str | None = implemented(None, "Folder of log files; the pipeline replaces it.")
    tensorboard_dir: str | None = implemented(None, "Folder of TensorBoard files; the pipeline replaces it.")
    wall_clock_breakdown: bool = harmless(False, "Timers that synchronise; left out because they slow every step.")
    peak_theoretical_tflops: float | None = implemented(None, "Peak of the GPU for MFU; default from the cluster file.")
    use_wandb: bool | None = refused(None, "Log to Weights & Biases.", inactive=(False,))
    use_comet: bool | None = refused(None, "Log to Comet.", inactive=(False,))
