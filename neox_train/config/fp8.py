"""FP8: whether it is on, and which Transformer Engine recipe the keys describe. Pure; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neox_train.config.conflict import ConflictError

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig, NeoxKeys

FP8_MULTIPLE = 16
"""Both dimensions of every FP8 matrix product are multiples of this (Transformer Engine's requirement)."""

_FP8_HEAD_SIZE = 128

FP8_PARAMETERS = (
    "te_fp8_format",
    "te_fp8_wgrad",
    "te_fp8_amax_history_len",
    "te_fp8_amax_compute_algo",
    "te_fp8_margin",
    "te_fp8_first_last_layers_bf16",
)
"""Keys that say how FP8 is done; none of them switches it on."""

TE_ACTIVATIONS = {
    "gelu_tanh": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "geglu": "geglu",
    "swiglu": "swiglu",
    "reglu": "reglu",
}
"""Transformer Engine's names of activations; its GELU and the gate of its GEGLU are the tanh form."""

_TE_LAYERS = ("te_mha", "te_layernorm_mlp", "te_columnparallel", "te_rowparallel")
_CLASSES = {
    "delayed": "DelayedScaling",
    "current": "Float8CurrentScaling",
    "blockwise": "Float8BlockScaling",
    "mxfp8": "MXFP8BlockScaling",
}
_FORMATS = {"e4m3": "E4M3", "hybrid": "HYBRID"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fp8Recipe:
    """A class of ``transformer_engine.common.recipe`` and its arguments; ``fp8_format`` by the name in its Format."""

    kind: str
    class_name: str
    fp8_format: str
    settings: dict[str, Any]


def uses_fp8(config: NeoxConfig | NeoxKeys) -> bool:
    """Whether FP8 is switched on; the te_fp8_* parameters alone do not."""
    return config.te_fp8 or config.te_fp8_recipe is not None or config.te_fp8_mha


def uses_transformer_engine(config: NeoxConfig | NeoxKeys) -> bool:
    """Whether any layer comes from Transformer Engine."""
    return any(getattr(config, name) for name in _TE_LAYERS) or config.norm.startswith("te_")


def choose_recipe(config: NeoxConfig) -> Fp8Recipe | None:
    """The recipe in force, None without FP8: ``delayed`` unless ``te_fp8_recipe`` names another.

    Delayed scaling alone has a history and a margin; ``te_fp8_mha`` puts attention itself into FP8, between inputs and
    an output in 16 bits: rotation stands before it, and the products around it quantise for themselves.
    """
    if not uses_fp8(config):
        return None
    kind = config.te_fp8_recipe or "delayed"
    settings: dict[str, Any] = {}
    if kind == "delayed":
        settings = {
            "margin": config.te_fp8_margin,
            "amax_history_len": config.te_fp8_amax_history_len,
            "amax_compute_algo": config.te_fp8_amax_compute_algo,
        }
    if config.te_fp8_mha:
        settings |= {"fp8_dpa": True}
    return Fp8Recipe(kind=kind, class_name=_CLASSES[kind], fp8_format=_FORMATS[config.te_fp8_format], settings=settings)


def check_fp8(config: NeoxConfig) -> None:
    """Raise ConflictError, one sentence, where FP8 is on and cannot run in any hardware."""
    if not uses_fp8(config):
        return
    if config.precision == "fp32":
        raise ConflictError("FP8 needs 16 bits around it, precision is fp32; set precision: bfloat16", "precision")
    if not any(getattr(config, name) for name in _TE_LAYERS):
        raise ConflictError(
            "FP8 is on, but no layer is Transformer Engine's, so nothing would run in FP8; set te_mha: true and "
            "te_layernorm_mlp: true",
            "te_fp8",
            "te_fp8_recipe",
        )
    if config.te_fp8_mha:
        _check_attention(config)
    if not config.te_fp8_wgrad:
        raise ConflictError(
            "te_fp8_wgrad is false, but Transformer Engine 2 computes all three products of a layer in FP8; "
            "leave te_fp8_wgrad out",
            "te_fp8_wgrad",
        )
    if 2 * config.te_fp8_first_last_layers_bf16 >= config.num_layers:
        raise ConflictError(
            f"te_fp8_first_last_layers_bf16 is {config.te_fp8_first_last_layers_bf16}, which leaves no layer of "
            f"{config.num_layers} in FP8; choose less than half of num_layers",
            "te_fp8_first_last_layers_bf16",
        )
    _check_dimensions(config)


def _check_attention(config: NeoxConfig) -> None:
    """What the FP8 attention kernels of Transformer Engine 2.20 and cuDNN 9.19 on an H200 were seen to need."""
    if not config.te_mha:
        raise ConflictError("te_fp8_mha is true, but te_mha is false; set te_mha: true", "te_fp8_mha")
    if config.te_fp8_recipe not in (None, "delayed"):
        raise ConflictError(
            f"te_fp8_mha has no kernel with te_fp8_recipe {config.te_fp8_recipe}; set te_fp8_recipe: delayed, or "
            "te_fp8_mha: false",
            "te_fp8_mha",
        )
    width = config.hidden_size // config.num_attention_heads
    if width != _FP8_HEAD_SIZE or config.seq_length % _FP8_HEAD_SIZE:
        raise ConflictError(
            f"te_fp8_mha has kernels for heads of {_FP8_HEAD_SIZE} and sequences of a multiple of {_FP8_HEAD_SIZE}, "
            f"here are {width} and {config.seq_length}; choose such, or set te_fp8_mha: false and te_fp8: true",
            "te_fp8_mha",
        )
    if config.attention_dropout:
        raise ConflictError("te_fp8_mha has no kernel with attention_dropout; set it to 0", "te_fp8_mha")


def list_fp8_layers(config: NeoxConfig) -> range:
    """Numbers of the layers that compute in FP8; empty without FP8."""
    edge = config.te_fp8_first_last_layers_bf16
    return range(edge, config.num_layers - edge) if uses_fp8(config) else range(0)


def _check_dimensions(config: NeoxConfig) -> None:
    """Both dimensions of every product on each tensor-parallel rank."""
    ranks = config.model_parallel_size
    tokens = config.train_micro_batch_size_per_gpu * config.seq_length
    # Row-parallel products read hidden_size over the ranks; with sequence parallelism each rank quantises its tokens.
    sizes = (
        ("hidden_size", config.hidden_size, ranks),
        ("the MLP's width", config.ffn_width, ranks),
        ("train_micro_batch_size_per_gpu x seq_length", tokens, ranks if config.sequence_parallel else 1),
    )
    for name, size, parts in sizes:
        if size % (FP8_MULTIPLE * parts):
            over = f" on each of {parts} tensor-parallel ranks" if parts > 1 else ""
            raise ConflictError(
                f"FP8 needs dimensions that are multiples of {FP8_MULTIPLE}{over}, {name} is {size}; choose a "
                "multiple, or train without FP8",
                "hidden_size",
            )
