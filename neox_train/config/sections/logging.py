"""Keys of logs, monitors and profilers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused

_CURVES = "metrics.jsonl and the report hold the curves."
_WANDB = f"Read by Weights & Biases, to which nothing is sent; {_CURVES}"
_COMET = f"Read by Comet, to which nothing is sent; {_CURVES}"


class LoggingKeys(BaseModel):
    """What is logged and where."""

    log_interval: int = implemented(100, "Steps between lines of metrics.jsonl.", ge=1)
    steps_per_print: int = implemented(10, "Steps between DeepSpeed's own lines.", ge=1)
    log_dir: str | None = harmless(None, "Folder of log files; they go into the run's own folder.")
    wall_clock_breakdown: bool = harmless(False, "Timers that synchronise; left out because they slow every step.")
    peak_theoretical_tflops: float | None = implemented(
        None, "Peak of one GPU in TFLOP/s, for MFU; default from the cluster file.", gt=0
    )
    log_grad_norm: bool = harmless(False, "Log the gradient norm; it is always logged.")
    log_param_norm: bool = refused(
        False, "Log the norm of the parameters.", remedy="remove it; metrics.jsonl has the gradient norm"
    )
    log_grad_pct_zeros: bool = refused(
        False, "Log the share of zero gradients.", remedy="remove it; metrics.jsonl has the gradient norm"
    )
    log_optimizer_states: bool = refused(
        False, "Log optimizer states.", remedy="remove it; metrics.jsonl has the gradient norm"
    )
    log_gradient_noise_scale: bool = refused(
        False, "Log the gradient noise scale.", remedy="remove it; metrics.jsonl has the gradient norm"
    )
    gradient_noise_scale_n_batches: int = harmless(5, "Read only with log_gradient_noise_scale.")
    gradient_noise_scale_cpu_offload: bool = harmless(False, "Read only with log_gradient_noise_scale.")
    git_hash: str | None = harmless(None, "Commit of the code; provenance.json holds it.")


class MonitorKeys(BaseModel):
    """TensorBoard, Weights & Biases, Comet."""

    tensorboard_dir: str | None = harmless(None, "Folder of TensorBoard files; metrics.jsonl holds the curves.")
    use_wandb: bool | None = refused(
        None,
        "Log to Weights & Biases.",
        remedy="remove it or set it to false; metrics.jsonl and the report hold the curves",
        inactive=(False,),
    )
    wandb_group: str | None = harmless(None, _WANDB)
    wandb_run_name: str | None = harmless(None, _WANDB)
    wandb_team: str | None = harmless(None, _WANDB)
    wandb_project: str = harmless("neox", _WANDB)
    wandb_host: str = harmless("https://api.wandb.ai", _WANDB)
    wandb_init_all_ranks: bool = harmless(False, _WANDB)
    use_comet: bool | None = refused(
        None,
        "Log to Comet.",
        remedy="remove it or set it to false; metrics.jsonl and the report hold the curves",
        inactive=(False,),
    )
    comet_workspace: str | None = harmless(None, _COMET)
    comet_project: str | None = harmless(None, _COMET)
    comet_experiment_name: str | None = harmless(None, _COMET)
    comet_tags: list[str] | None = harmless(None, _COMET)
    comet_others: dict[str, Any] | None = harmless(None, _COMET)
    comet_experiment: str | None = harmless(None, "Set by GPT-NeoX itself.")


class ProfilingKeys(BaseModel):
    """Profilers."""

    profile: bool = refused(
        False,
        "Profile the steps from profile_step_start to profile_step_stop.",
        remedy="remove it; metrics.jsonl has the time of every step",
    )
    profile_step_start: int = harmless(10, "Read only with profile.")
    profile_step_stop: int = harmless(12, "Read only with profile.")
    memory_profiling: bool = refused(
        False, "Record a snapshot of GPU memory.", remedy="remove it; metrics.jsonl has the peak of GPU memory"
    )
    memory_profiling_path: str | None = harmless(None, "Read only with memory_profiling.")
