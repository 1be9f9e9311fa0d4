"""Keys passed to DeepSpeed's own features."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused


class DeepSpeedKeys(BaseModel):
    """DeepSpeed's blocks that stand at the top level."""

    deepspeed: bool = refused(True, "Train with the DeepSpeed engine.", remedy="every run uses the engine")
    deepspeed_extra_args: dict[str, Any] | None = implemented(None, "Keys added last to the DeepSpeed configuration.")
    dump_state: bool = harmless(False, "Print DeepSpeed's state at start; config.yml holds every key.")
    flops_profiler: dict[str, Any] | None = refused(None, "DeepSpeed's profiler of floating-point operations.")
    autotuning: dict[str, Any] | None = refused(
        None, "DeepSpeed's autotuner.", remedy="neox-train estimate says what fits"
    )
    sparse_attention: dict[str, Any] | None = refused(None, "DeepSpeed's sparse attention.")
    data_efficiency: dict[str, Any] | None = refused(None, "DeepSpeed's data efficiency.")
    tensorboard: dict[str, Any] | None = refused(
        None, "DeepSpeed's TensorBoard monitor.", remedy="metrics.jsonl and the report hold the curves"
    )
    wandb: dict[str, Any] | None = refused(None, "DeepSpeed's Weights & Biases monitor.")
    csv_monitor: dict[str, Any] | None = refused(None, "DeepSpeed's CSV monitor.", remedy="read metrics.jsonl")
    elasticity: dict[str, Any] | None = refused(None, "DeepSpeed's elasticity.")
    comms_logger: dict[str, Any] | None = refused(
        None, "DeepSpeed's communication log.", remedy="put it into deepspeed_extra_args"
    )
    compression_training: dict[str, Any] | None = refused(None, "DeepSpeed's compression and quantisation.")
    deepscale: bool = harmless(False, "An old name of DeepSpeed; without effect in GPT-NeoX too.")
    deepscale_config: str | None = harmless(None, "An old name of DeepSpeed; without effect in GPT-NeoX too.")
