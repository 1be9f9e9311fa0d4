"""What the te_* keys ask of the model, and the proof that FP8 ran."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from neox_train.config.fp8 import Fp8Recipe, choose_recipe, list_fp8_layers, uses_transformer_engine
from neox_train.errors import ConfigError, TrainingError
from neox_train.model.te_adopt import find_te_modules

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig
    from neox_train.model.gpt_neox import GPTNeoX
    from neox_train.model.layers import LayerFactory
    from neox_train.model.parallel.group import TensorGroup

_FP8_CAPABILITY = (8, 9)


def choose_layers(config: NeoxConfig, group: TensorGroup) -> dict[str, Any]:
    """Arguments of ``GPTNeoX``: factory, block and context; none where no key names Transformer Engine.

    ``group`` are the ranks that each layer is cut over.

    Raises ConfigError, never a silent fall-back, on a machine without a GPU or with one that cannot compute in FP8.
    """
    if not uses_transformer_engine(config):
        return {}
    recipe = choose_recipe(config)
    _require_gpu(recipe)
    from neox_train.model.te import fp8_context, import_te
    from neox_train.model.te_block import TEBlock
    from neox_train.model.te_layers import TELayers, TEParallelLayers
    from neox_train.model.te_split import TESplit

    named = {"columns": config.te_columnparallel, "rows": config.te_rowparallel}
    layers: LayerFactory = TELayers(**named)
    if group.size > 1:
        layers = TEParallelLayers(group, sequence_parallel=config.sequence_parallel, **named)
    chosen: dict[str, Any] = {"layers": layers}
    if config.te_mha or config.te_layernorm_mlp or config.te_fp8_first_last_layers_bf16:
        chosen["build_block"] = partial(
            TEBlock,
            te_attention=config.te_mha,
            te_mlp=config.te_layernorm_mlp,
            split=TESplit(group=group, sequence_parallel=config.sequence_parallel),
        )
    if recipe is not None:
        chosen["stack_context"] = fp8_context(recipe)
        # Its recomputation uses the scales of the first pass and counts no amax twice.
        chosen["recompute"] = partial(_recompute, import_te().checkpoint)
    return chosen


def describe_fp8(config: NeoxConfig) -> str | None:
    """The recipe in words for the head of the log; None without FP8."""
    recipe = choose_recipe(config)
    if recipe is None:
        return None
    told = "".join(f", {name} {value}" for name, value in recipe.settings.items())
    edge = config.te_fp8_first_last_layers_bf16
    return (
        f"FP8: {recipe.kind} scaling, format {recipe.fp8_format}{told}"
        + f"; the first and last {edge} layers in 16 bits" * bool(edge)
    )


def keep_edges_in_16_bits(model: GPTNeoX, config: NeoxConfig) -> None:
    """Take the layers that ``te_fp8_first_last_layers_bf16`` names out of the stack's FP8 context."""
    in_fp8 = list_fp8_layers(config)
    if in_fp8:
        for number, block in enumerate(model.layers):
            if number not in in_fp8:
                block.in_16_bits = True


def prove_fp8(model: GPTNeoX, config: NeoxConfig) -> str:
    """After the first step: how many Transformer Engine layers computed in FP8, or TrainingError where one did not.

    With delayed scaling a layer counts when the scales of its forward products have moved from one.
    """
    delayed = (config.te_fp8_recipe or "delayed") == "delayed"
    # Of the stack alone: the projection to the vocabulary stays in 16 bits.
    in_fp8 = list_fp8_layers(config)
    modules = {
        f"{number}.{name}": module
        for number in in_fp8
        for name, module in find_te_modules(model.layers[number]).items()
    }
    layers = {name: module for name, module in modules.items() if any(True for _ in module.parameters(recurse=False))}
    attentions = _find_attentions(modules) if config.te_fp8_mha else {}
    idle = [
        name
        for name, module in (layers | attentions).items()
        if not (module.fp8 and module.fp8_initialized)
        or (delayed and not bool((module.fp8_meta["scaling_fwd"].scale != 1).any()))
    ]
    if idle or not layers:
        raise TrainingError(
            f"FP8 is on, but {len(idle)} of {len(layers) + len(attentions)} Transformer Engine layers did not compute "
            f"in it ({', '.join(idle[:3])}); check the te_* keys and the installed Transformer Engine"
        )
    moved = "; their scales moved" if delayed else ""
    too = f" and {len(attentions)} attentions" if attentions else ""
    return f"FP8: all {len(layers)} Transformer Engine layers{too} computed the first step in FP8{moved}"


def _find_attentions(modules: dict[str, Any]) -> dict[str, Any]:
    """The modules that quantise queries, keys and values."""
    from neox_train.model.te import import_te

    kind = import_te().DotProductAttention
    return {name: module for name, module in modules.items() if isinstance(module, kind)}


def _recompute(te_checkpoint: Any, function: Any, *args: Any, use_reentrant: bool, preserve_rng_state: bool) -> Any:
    """torch's ``checkpoint`` by Transformer Engine, which always keeps the random state."""
    return te_checkpoint(function, *args, use_reentrant=use_reentrant)


def _require_gpu(recipe: Fp8Recipe | None) -> None:
    if not torch.cuda.is_available():
        raise ConfigError(
            "the te_* keys need a GPU, this machine has none; set te_mha, te_layernorm_mlp, te_columnparallel and "
            "te_rowparallel to false (the checkpoints are the same)"
        )
    capability = torch.cuda.get_device_capability()
    if recipe is not None and capability < _FP8_CAPABILITY:
        raise ConfigError(
            f"FP8 needs compute capability 8.9 (L40S, H100, H200), this GPU has {capability[0]}.{capability[1]}; "
            "remove te_fp8, te_fp8_recipe and te_fp8_mha: Transformer Engine's 16-bit layers stay"
        )
