"""Which of several implementations a training uses: the keys of speed, with their defaults by device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from neox_train.config.compression import replaces_reduction
from neox_train.config.conflict import lead
from neox_train.config.fp8 import uses_transformer_engine
from neox_train.errors import NotBuiltError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

Device = Literal["cpu", "cuda"]

_GPU_CHUNK_TOKENS = 8192
_DEVICES: tuple[Device, ...] = ("cuda", "cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Implementations:
    """The choices of one training."""

    compiled_blocks: bool
    fused_rotation: bool
    """Whether blocks that are not compiled rotate queries and keys in one compiled kernel."""
    flat_masters: bool
    loss_chunk_tokens: int
    checkpoint_layers: int
    """Layers recomputed together; 0 where nothing is recomputed beside what compiled layers do by themselves."""

    @classmethod
    def choose(cls, config: NeoxConfig, device: Device) -> Implementations:
        """What the keys say, else the fast one on a GPU wherever it applies; NotBuiltError where a key cannot hold."""
        on_gpu = device == "cuda"
        cut = config.model_parallel_size > 1 or config.pipe_parallel_size > 1
        sharded = config.zero_stage == 3
        whole = not (cut or sharded)
        hindrance = _flat_masters_hindrance(config)
        if config.flat_master_weights and hindrance:
            raise _refuse(config, "flat_master_weights", f": true is not built with {hindrance}; leave the key out")
        if (config.torch_compile or config.loss_chunk_tokens) and not whole:
            key = "torch_compile" if config.torch_compile else "loss_chunk_tokens"
            raise _refuse(
                config,
                key,
                " is not built with zero_optimization.stage 3, or model_parallel_size or pipe_parallel_size above 1; "
                "leave the key out",
            )
        by_te = uses_transformer_engine(config)
        if config.torch_compile and by_te:
            raise _refuse(
                config, "torch_compile", ": true is not built with te_* layers, fused already; leave the key out"
            )
        compiled = _given(config.torch_compile, on_gpu and whole and not by_te)
        if config.checkpoint_activations:
            _require_recomputation(config, compiled=compiled)
        default_chunk = _GPU_CHUNK_TOKENS if on_gpu and whole else 0
        return cls(
            compiled_blocks=compiled,
            fused_rotation=config.rope_fusion and on_gpu and not compiled,
            flat_masters=_given(config.flat_master_weights, on_gpu and hindrance is None),
            loss_chunk_tokens=default_chunk if config.loss_chunk_tokens is None else config.loss_chunk_tokens,
            checkpoint_layers=_choose_checkpoint_layers(config, compiled=compiled),
        )

    @classmethod
    def require_some(cls, config: NeoxConfig) -> None:
        """Raise NotBuiltError where the keys hold together on no device."""
        refusals = []
        for device in _DEVICES:
            try:
                cls.choose(config, device)
            except NotBuiltError as error:
                refusals.append(error)
        if len(refusals) == len(_DEVICES):
            raise refusals[0]


def _choose_checkpoint_layers(config: NeoxConfig, *, compiled: bool) -> int:
    """A compiled layer keeps its matrix products and attention and computes the rest again without being asked."""
    if not config.checkpoint_activations or (compiled and config.checkpoint_granularity == "selective"):
        return 0
    return config.checkpoint_num_layers


def _require_recomputation(config: NeoxConfig, *, compiled: bool) -> None:
    """Raise NotBuiltError where the keys of activation checkpointing cannot hold together."""
    by_te = uses_transformer_engine(config)
    if by_te and config.partition_activations and config.model_parallel_size > 1:
        raise _refuse(
            config,
            "partition_activations",
            ": true is not built with te_* layers, whose recomputation is Transformer Engine's; "
            "set sequence_parallel: true instead, which shares them out too",
        )
    if config.checkpoint_in_cpu and (by_te or (config.partition_activations and config.model_parallel_size > 1)):
        other = "te_* layers" if by_te else "partition_activations"
        raise _refuse(config, "checkpoint_in_cpu", f": true is not built with {other}; set one of the two to false")
    if config.checkpoint_granularity != "selective":
        return
    if compiled and (config.checkpoint_in_cpu or config.checkpoint_num_layers > 1):
        key = "checkpoint_in_cpu" if config.checkpoint_in_cpu else "checkpoint_num_layers"
        raise _refuse(
            config,
            key,
            " has nothing to work on with checkpoint_granularity: selective and compiled layers, which recompute "
            f"by themselves; remove {key}, or set torch_compile: false",
        )
    if config.zero_stage == 3:
        raise _refuse(
            config,
            "checkpoint_granularity",
            ": selective is not built with zero_optimization.stage 3, where DeepSpeed's linear function adds biases to "
            "kept results in place; set checkpoint_granularity: full",
        )
    if by_te:
        raise _refuse(
            config,
            "checkpoint_granularity",
            ": selective is not built with te_* layers, which are fused; set checkpoint_granularity: full",
        )


def _flat_masters_hindrance(config: NeoxConfig) -> str | None:
    """The first setting that the flat master weights do not cover; None where they can be used."""
    if config.precision != "bfloat16":
        return f"precision {config.precision}"
    if config.zero_stage not in (0, 1):
        return f"zero_optimization.stage {config.zero_stage}"
    if config.optimizer_type not in ("adam", "adamw"):
        return f"optimizer.type {config.optimizer_type}"
    if config.model_parallel_size > 1 or config.pipe_parallel_size > 1:
        return "model_parallel_size or pipe_parallel_size above 1"
    if config.prescale_gradients:
        return "prescale_gradients"
    if config.gradient_predivide_factor != 1.0:
        return "gradient_predivide_factor"
    if replaces_reduction(config):
        return "sparse_gradients" if config.sparse_gradients else f"gradient_compression {config.gradient_compression}"
    if config.deepspeed_extra_args:
        return "deepspeed_extra_args"
    return None


def _refuse(config: NeoxConfig, key: str, sentence: str) -> NotBuiltError:
    """The error whose sentence goes on behind ``key``, led by the file and line that set it."""
    return NotBuiltError(lead(config.places, f"{key}{sentence}", key))


def _given(value: bool | None, default: bool) -> bool:
    return default if value is None else value
