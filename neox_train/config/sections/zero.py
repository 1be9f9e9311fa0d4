"""Keys of ZeRO."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from neox_train.config.keys import harmless, implemented
from neox_train.config.sections.whole import Whole


class ZeroBlock(TypedDict, total=False):
    """ZeRO: what data-parallel ranks share out, under DeepSpeed's names."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)  # type: ignore[misc]

    stage: Annotated[int, Field(ge=0, le=3)]
    allgather_partitions: bool
    allgather_bucket_size: Annotated[Whole, Field(ge=1)]
    overlap_comm: bool | None
    reduce_scatter: bool
    reduce_bucket_size: Annotated[Whole, Field(ge=1)]
    contiguous_gradients: bool
    round_robin_gradients: bool
    use_multi_rank_bucket_allreduce: bool
    ignore_unused_parameters: bool
    load_from_fp32_weights: bool
    elastic_checkpoint: bool
    legacy_stage1: bool
    sub_group_size: Whole
    offload_optimizer: dict[str, Any] | None
    offload_param: dict[str, Any] | None
    cpu_offload: bool | None
    cpu_offload_param: bool | None
    cpu_offload_use_pin_memory: bool | None
    zenflow: dict[str, Any] | None
    stage3_prefetch_bucket_size: Whole
    stage3_param_persistence_threshold: Whole
    stage3_model_persistence_threshold: Whole
    stage3_max_live_parameters: Whole
    stage3_max_reuse_distance: Whole
    stage3_gather_16bit_weights_on_model_save: bool
    stage3_gather_fp16_weights_on_model_save: bool
    stage3_module_granularity_threshold: Whole
    stage3_use_all_reduce_for_fetch_params: bool
    stage3_allgather_sequential: bool
    memory_efficient_linear: bool
    pipeline_loading_checkpoint: bool
    override_module_apply: bool
    log_trace_cache_warnings: bool
    enable_sanity_checks: bool
    leaf_module: dict[str, Any]
    zero_hpz_partition_size: Whole
    zero_quantized_weights: bool
    zero_quantized_nontrainable_weights: bool
    zero_quantized_gradients: bool
    zeropp_loco_param: dict[str, Any] | None
    mics_shard_size: int
    mics_hierarchical_params_gather: bool


class ZeroKeys(BaseModel):
    """ZeRO and its derived spellings."""

    zero_optimization: ZeroBlock | None = implemented(None, "ZeRO: stage 0 to 3, bucket sizes, overlap.")
    zero_reduce_scatter: bool | None = harmless(None, "Set reduce_scatter in zero_optimization.")
    zero_contiguous_gradients: bool | None = harmless(None, "Set contiguous_gradients in zero_optimization.")
    zero_reduce_bucket_size: int | None = harmless(None, "Set reduce_bucket_size in zero_optimization.")
    zero_allgather_bucket_size: int | None = harmless(None, "Set allgather_bucket_size in zero_optimization.")
