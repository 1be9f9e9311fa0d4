"""What one rank holds and computes: the few numbers of a run that decide its memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from neox_train.config.architecture import Architecture
from neox_train.config.cluster import Cluster
from neox_train.config.deepspeed import deepspeed_json
from neox_train.config.fp8 import uses_fp8
from neox_train.config.implementations import Implementations
from neox_train.config.offload import offloads_optimizer, offloads_weights, pins_host_memory
from neox_train.config.one_bit import uses_one_bit
from neox_train.config.precision import Precision
from neox_train.config.schema import NeoxConfig
from neox_train.config.stages import EMBEDDING, FINAL_NORM, OUTPUT, deal_stages, list_pipeline_layers
from neox_train.errors import ConfigError, NotBuiltError

OptimizerKind = Literal["adam", "adam_8bit", "cpu_adam", "lion", "lion_8bit", "muon", "one_bit", "sgd", "sgd_momentum"]
Compression = Literal["none", "powersgd", "local_update", "onebit_adam", "zero_one_adam", "onebit_lamb"]
"""Methods that keep something; the 16-bit formats do not."""

_FORMAT_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "bfp16": 2, "bfloat16": 2}
_BUCKET_ELEMENTS = 500_000_000
"""DeepSpeed's default of ``reduce_bucket_size``."""
_PERSISTENCE_ELEMENTS = 100_000
"""DeepSpeed's default of ``stage3_param_persistence_threshold``."""
_MAX_LIVE_ELEMENTS = 10**9
"""DeepSpeed's default of ``stage3_max_live_parameters``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankPlan:
    """One rank of a run. Counts of elements unless the name says bytes; the ranks of a pipeline stage have one plan."""

    architecture: Architecture
    """The model; of a pipeline stage with that stage's number of layers."""
    links: frozenset[str]
    """What the rank holds beside layers: embedding, final norm, output."""
    following_stages: int
    """Pipeline stages after this one."""
    device: Literal["cpu", "cuda"]
    precision: Precision
    micro_batch: int
    """Sequences of one forward pass."""
    accumulation_steps: int
    data_parallel_size: int
    tensor_parallel_size: int
    sequence_parallel: bool
    """Whether tensor-parallel ranks share the sequence out between their matrices."""
    zero_stage: int
    reduce_bucket_elements: int
    overlap_comm: bool
    persistence_threshold: int
    """ZeRO 3 keeps parameters of up to this many elements whole on every rank."""
    max_live_parameters: int
    """ZeRO 3 lets go of gathered parameters beyond this many elements."""
    accumulation_bytes: int
    """Bytes of one accumulated gradient."""
    communication_bytes: int
    """Bytes of one gradient on the wire."""
    optimizer: OptimizerKind
    has_decay_groups: bool
    """Whether biases and norms form an optimizer group of their own."""
    checkpoint_layers: int
    """Layers recomputed together in the backward pass; 0 keeps every activation."""
    cuts_documents: bool
    """Whether attention ends at documents: each micro-batch has masks of its own."""
    keeps_products: bool
    """Whether recomputed layers keep the results of matrix products and attention."""
    kept_input_shares: int
    """Tensor-parallel ranks that share out the kept inputs of recomputed layers; 1 where each keeps its own."""
    keeps_inputs_on_host: bool
    """Whether a GPU keeps the inputs of recomputed layers in host memory."""
    flat_masters: bool
    """Whether weights, gradients and master weights lie in one buffer each."""
    compiled_blocks: bool
    """Whether compiled layers compute norms and the MLP's activation again in the backward pass."""
    loss_chunk_tokens: int
    """Tokens whose logits exist at a time; 0 for all of a micro-batch."""
    compression: Compression = "none"
    """What replicas exchange in place of their gradients' sum."""
    powersgd_rank: int = 0
    secondary_ranks: int = 1
    """Ranks that share out ZeRO++'s second partition of the weights (hpZ); 1 without one."""
    te_attention: bool = False
    """Whether the norm, projections and attention of a layer's first half are Transformer Engine's."""
    te_mlp: bool = False
    """Whether the norm and MLP of its second half are one Transformer Engine module."""
    te_columns: bool = False
    """Whether the projections into heads and MLP are Transformer Engine's where the halves are plain."""
    te_rows: bool = False
    """The same of the projections out of them."""
    fp8: Literal["delayed", "current", "blockwise", "mxfp8"] | None = None
    """Scaling of Transformer Engine's products in FP8; None where they are in 16 bits."""
    edge_layers: int = 0
    """Layers at either end that stay in 16 bits under FP8."""
    compute_capability: float = 0.0
    """Of the GPU; 0 without one."""
    offloads_optimizer: bool = False
    """Whether master weights and optimizer states are in host memory."""
    offloads_weights: bool = False
    """Whether ZeRO 3's shares of the weights are there too."""
    pins_host_memory: bool = False
    """Whether that memory is locked into RAM."""

    @property
    def in_flight(self) -> int:
        """Micro-batches whose activations the rank keeps at once.

        One forward, one backward: a stage runs ahead of its first backward pass by the stages that follow it.
        """
        return min(self.following_stages + 1, self.accumulation_steps)

    @property
    def weight_bytes(self) -> int:
        """Bytes of one weight, and of one activation, in matrix products."""
        return 4 if self.precision == "fp32" else 2

    @property
    def share_tokens(self) -> int:
        """Tokens of a micro-batch that this rank holds between the layers."""
        return self.tokens // (self.tensor_parallel_size if self.sequence_parallel else 1)

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch."""
        return self.micro_batch * self.architecture.seq_length

    @property
    def global_batch(self) -> int:
        """Sequences of one optimizer step."""
        return self.micro_batch * self.accumulation_steps * self.data_parallel_size


def plan_stages(config: NeoxConfig, cluster: Cluster) -> list[RankPlan]:
    """The plan of a rank of each pipeline stage."""
    return [plan_rank(config, cluster, stage) for stage in range(max(1, config.pipe_parallel_size))]


def plan_rank(config: NeoxConfig, cluster: Cluster, stage: int = 0) -> RankPlan:
    """Read the plan of a stage's rank off a resolved configuration whose vocabulary is known.

    ZeRO and number formats are read from the very JSON that DeepSpeed gets. Raises NotBuiltError for an optimizer that
    this estimate does not cover.
    """
    architecture, links = _cut_stage(config, stage)
    choice = Implementations.choose(config, cluster.device)
    stages = max(1, config.pipe_parallel_size)
    engine = deepspeed_json(config)
    zero = engine.get("zero_optimization") or {}
    weight_format = "fp32" if config.precision == "fp32" else "fp16"
    return RankPlan(
        architecture=architecture,
        links=links,
        following_stages=stages - stage - 1,
        device=cluster.device,
        precision=_read_precision(config),
        micro_batch=config.train_micro_batch_size_per_gpu,
        accumulation_steps=config.gradient_accumulation_steps,
        data_parallel_size=config.data_parallel_size,
        tensor_parallel_size=config.model_parallel_size,
        sequence_parallel=config.sequence_parallel and config.model_parallel_size > 1,
        zero_stage=int(zero.get("stage", 0)),
        reduce_bucket_elements=int(zero.get("reduce_bucket_size", _BUCKET_ELEMENTS)),
        overlap_comm=bool(zero.get("overlap_comm", False)),
        persistence_threshold=int(zero.get("stage3_param_persistence_threshold", _PERSISTENCE_ELEMENTS)),
        max_live_parameters=int(zero.get("stage3_max_live_parameters", _MAX_LIVE_ELEMENTS)),
        accumulation_bytes=_read_bytes((config.data_types or {}).get("grad_accum_dtype") or weight_format),
        communication_bytes=_read_bytes(engine.get("communication_data_type") or weight_format),
        optimizer=_read_optimizer(config),
        has_decay_groups=config.weight_decay > 0,
        checkpoint_layers=choice.checkpoint_layers,
        cuts_documents=config.document_attention,
        keeps_products=choice.checkpoint_layers > 0 and config.checkpoint_granularity == "selective",
        kept_input_shares=config.model_parallel_size
        if config.partition_activations and not config.sequence_parallel
        else 1,
        keeps_inputs_on_host=config.checkpoint_in_cpu and cluster.device == "cuda",
        flat_masters=choice.flat_masters,
        compiled_blocks=choice.compiled_blocks,
        loss_chunk_tokens=choice.loss_chunk_tokens,
        compression=_read_compression(config),
        powersgd_rank=config.powersgd_rank,
        secondary_ranks=int(zero.get("zero_hpz_partition_size") or 1),
        te_attention=config.te_mha,
        te_mlp=config.te_layernorm_mlp,
        te_columns=config.te_columnparallel,
        te_rows=config.te_rowparallel,
        fp8=_read_fp8(config),
        edge_layers=config.te_fp8_first_last_layers_bf16 if uses_fp8(config) else 0,
        compute_capability=cluster.gpu.compute_capability if cluster.gpu else 0.0,
        offloads_optimizer=offloads_optimizer(config),
        offloads_weights=offloads_weights(config),
        pins_host_memory=pins_host_memory(config),
    )


def _cut_stage(config: NeoxConfig, stage: int) -> tuple[Architecture, frozenset[str]]:
    architecture = Architecture.from_config(config)
    stages = max(1, config.pipe_parallel_size)
    chain = list_pipeline_layers(architecture)
    dealt = deal_stages(architecture, stages, config.pipe_partition_method) if stages > 1 else [range(len(chain))]
    own = [chain[place] for place in dealt[stage]]
    kinds = tuple(kind for index, kind in enumerate(architecture.attention_layers) if f"layers.{index}" in own)
    links = frozenset(own) & {EMBEDDING, FINAL_NORM, OUTPUT}
    return replace(architecture, num_layers=len(kinds), attention_layers=kinds), links


def _read_bytes(number_format: str) -> int:
    if number_format not in _FORMAT_BYTES:
        raise ConfigError(
            f"the number format '{number_format}' of gradients is not known; use one of {', '.join(_FORMAT_BYTES)}"
        )
    return _FORMAT_BYTES[number_format]


def _read_precision(config: NeoxConfig) -> Precision:
    if config.precision is None:
        raise ValueError("the configuration is not resolved: its precision is not known")
    return config.precision


def _read_compression(config: NeoxConfig) -> Compression:
    """The 16-bit formats are in ``communication_bytes``; ``auto`` counts as what keeps most of all it may choose."""
    chosen = config.gradient_compression
    if chosen == "auto":
        return "local_update"
    if chosen == "bf16" or chosen == "fp16":
        return "none"
    return chosen


def _read_fp8(config: NeoxConfig) -> Literal["delayed", "current", "blockwise", "mxfp8"] | None:
    return (config.te_fp8_recipe or "delayed") if uses_fp8(config) else None


def _read_optimizer(config: NeoxConfig) -> OptimizerKind:
    kind = config.optimizer_type
    if kind == "cpu_adam":
        return "cpu_adam"
    if kind in ("adam", "adamw", "cpu_torch_adam"):
        return "adam_8bit" if config.use_bnb_optimizer else "adam"
    if kind == "sgd":
        params = (config.optimizer or {}).get("params", {})
        return "sgd_momentum" if params.get("momentum") else "sgd"
    if kind == "lion":
        return "lion_8bit" if config.use_bnb_optimizer else "lion"
    if kind == "muon":
        return "muon"
    if uses_one_bit(config):
        return "one_bit"
    raise NotBuiltError(f"optimizer.type {kind!r} is not covered by the memory estimate; use Adam, SGD, Lion or Muon")
