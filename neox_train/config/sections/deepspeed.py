"""Keys passed to DeepSpeed's own features."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused


class DeepSpeedKeys(BaseModel):
    """DeepSpeed's blocks that stand at the top level."""

    deepspeed: bool = refused(
        True, "Train with the DeepSpeed engine.", remedy="remove it; every run uses the DeepSpeed engine"
    )
    deepspeed_extra_args: dict[str, Any] | None = implemented(None, "Keys added last to the DeepSpeed configuration.")
    dump_state: bool = harmless(False, "Print DeepSpeed's state at start; config.yml holds every key.")
    flops_profiler: dict[str, Any] | None = refused(
        None, "DeepSpeed's profiler of floating-point operations.", remedy="remove it; metrics.jsonl has FLOP/s and MFU"
    )
    autotuning: dict[str, Any] | None = refused(
        None, "DeepSpeed's autotuner.", remedy="remove it; neox-train plan chooses a layout and estimate says what fits"
    )
    sparse_attention: dict[str, Any] | None = refused(
        None,
        "DeepSpeed's sparse attention.",
        remedy='remove it; attention_config: [[["local"], "all"]] is the windowed kind that is built',
    )
    data_efficiency: dict[str, Any] | None = refused(
        None, "DeepSpeed's data efficiency.", remedy="remove it; every sample of the data is drawn"
    )
    tensorboard: dict[str, Any] | None = refused(
        None, "DeepSpeed's TensorBoard monitor.", remedy="remove it; metrics.jsonl and the report hold the curves"
    )
    wandb: dict[str, Any] | None = refused(
        None, "DeepSpeed's Weights & Biases monitor.", remedy="remove it; metrics.jsonl and the report hold the curves"
    )
    csv_monitor: dict[str, Any] | None = refused(
        None, "DeepSpeed's CSV monitor.", remedy="remove it; metrics.jsonl holds the curves"
    )
    elasticity: dict[str, Any] | None = refused(
        None,
        "DeepSpeed's elasticity.",
        remedy="remove it; a run resumes on any number of nodes with the same train_batch_size",
    )
    comms_logger: dict[str, Any] | None = refused(
        None, "DeepSpeed's communication log.", remedy="remove it and put it into deepspeed_extra_args"
    )
    compression_training: dict[str, Any] | None = refused(
        None,
        "DeepSpeed's compression and quantisation.",
        remedy="remove it; te_fp8: true trains in FP8 on GPUs that can",
    )
    deepscale: bool = harmless(False, "An old name of DeepSpeed; without effect in GPT-NeoX too.")
    deepscale_config: str | None = harmless(None, "An old name of DeepSpeed; without effect in GPT-NeoX too.")
