"""What ``gradient_compression`` goes with, and the number format in which gradients travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from neox_train.config.one_bit import ONE_BIT_TYPES, uses_one_bit
from neox_train.config.reader import show_value

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

CommunicationType = Literal["fp32", "fp16", "bf16"]

AUTO_METHODS = ("none", "bf16", "powersgd", "local_update")
"""What ``auto`` may choose. Not fp16, whose bytes are bf16's and whose range is short; not the 1-bit methods, which put
another optimizer in the place of the one that the file names."""

_BY_KEY: dict[str, CommunicationType] = {"fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "bfp16": "bf16"}


def choose_communication_type(config: NeoxConfig) -> CommunicationType | None:
    """Number format of gradients between ranks under DeepSpeed's name; None for that of the gradients themselves."""
    if config.gradient_compression in ("bf16", "fp16"):
        return _BY_KEY[config.gradient_compression]
    if config.communication_data_type is not None:
        return _BY_KEY[config.communication_data_type]
    return "fp32" if config.fp32_allreduce else None


def replaces_reduction(config: NeoxConfig) -> bool:
    """Whether something else than the sum of whole gradients travels, so that the engine's reduction is ours.

    ``auto`` may choose such a method.
    """
    chosen = config.gradient_compression
    return chosen in ("auto", "powersgd", "local_update", *ONE_BIT_TYPES) or bool(config.sparse_gradients)


def list_candidates(config: NeoxConfig) -> list[str]:
    """Methods that ``auto`` may choose from; the one that is written where it is not ``auto``.

    bf16 is left out where gradients travel in 16 bits without it.
    """
    if config.gradient_compression != "auto":
        return [config.gradient_compression]
    is_narrow = config.precision != "fp32" and choose_communication_type(config) != "fp32"
    return [
        method
        for method in AUTO_METHODS
        if not (method == "bf16" and is_narrow) and not list_compression_problems(config.with_compression(method))
    ]


def list_compression_problems(config: NeoxConfig) -> list[str]:
    """One phrase, with the remedy, for each key that the chosen compression does not go with."""
    chosen = _name_choice(config)
    if config.gradient_compression in ("bf16", "fp16"):
        return _list_rival_formats(config, chosen)
    if config.gradient_compression == "none":
        return []
    hindrances = {
        "zero_optimization.stage above 0 (set stage: 0)": config.zero_stage > 0,
        "model_parallel_size above 1 (set 1)": config.model_parallel_size > 1,
        "pipe_parallel_size above 1 (set 1)": config.pipe_parallel_size > 1,
        "precision fp16 (set bfloat16)": config.precision == "fp16",
        "use_bnb_optimizer (set it to false)": config.use_bnb_optimizer,
        "prescale_gradients (set it to false)": config.prescale_gradients,
        "gradient_predivide_factor (remove it)": config.gradient_predivide_factor != 1.0,
    }
    if config.gradient_compression == "powersgd":
        # Its factors are made and sent in fp32.
        hindrances["communication_data_type (remove it)"] = config.communication_data_type not in (None, "fp32")
    if uses_one_bit(config):
        # Once it compresses, every rank steps on its own gradients: a common norm is never known.
        default = "" if "gradient_clipping" in config.places else f", {config.gradient_clipping} by default,"
        hindrances[f"gradient_clipping above 0{default} (set 0.0)"] = config.gradient_clipping > 0
        hindrances["use_mup (set it to false)"] = config.use_mup
    return [f"{chosen} with {name}" for name, is_set in hindrances.items() if is_set]


def _name_choice(config: NeoxConfig) -> str:
    """The choice under the key that was written for it."""
    if uses_one_bit(config) and "gradient_compression" not in config.places:
        return f"optimizer.type: {(config.optimizer or {}).get('type')}"
    return f"gradient_compression: {config.gradient_compression}"


def list_sparse_problems(config: NeoxConfig) -> list[str]:
    """One phrase, with the remedy, for each key that ``sparse_gradients`` does not go with."""
    if not config.sparse_gradients:
        return []
    chosen = f"sparse_gradients: {show_value(config.sparse_gradients)}"
    hindrances = {
        "zero_optimization.stage above 0 (set stage: 0)": config.zero_stage > 0,
        "pipe_parallel_size above 1 (set 1)": config.pipe_parallel_size > 1,
        f"gradient_compression: {config.gradient_compression} (set none, bf16 or fp16)": config.gradient_compression
        not in ("none", "bf16", "fp16"),
    }
    if config.sparse_gradients is True:
        hindrances[
            "tied embeddings, whose gradient the output makes dense (set no_weight_tying: true, or auto)"
        ] = not config.no_weight_tying
    return [f"{chosen} with {name}" for name, is_set in hindrances.items() if is_set]


def _list_rival_formats(config: NeoxConfig, chosen: str) -> list[str]:
    rival = config.communication_data_type
    problems = []
    if rival is not None and _BY_KEY[rival] != config.gradient_compression:
        problems.append(f"{chosen} with communication_data_type {rival} (remove one of the two)")
    if config.fp32_allreduce:
        problems.append(f"{chosen} with fp32_allreduce (set it to false)")
    return problems
