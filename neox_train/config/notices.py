"""Sentences printed once: keys that are set without effect, and numbers that act otherwise than one may think."""

from __future__ import annotations

from neox_train.config.architecture import GATED_ACTIVATIONS
from neox_train.config.conflict import lead
from neox_train.config.fp8 import FP8_PARAMETERS, uses_fp8
from neox_train.config.keys import is_off, read_status
from neox_train.config.local_update import choose_local_update
from neox_train.config.offload import offloads_optimizer
from neox_train.config.one_bit import choose_one_bit_warmup, uses_one_bit
from neox_train.config.passed_over import PASSED_OVER_PARAMS
from neox_train.config.precision import names_bfloat16, wants_wide_sums
from neox_train.config.reader import find_place, show_value
from neox_train.config.schema import NeoxConfig, NeoxKeys
from neox_train.config.sizes import note_sizes
from neox_train.config.voids import list_voids


def list_notices(config: NeoxConfig, written: NeoxKeys) -> list[str]:
    """One sentence for each thing a person should know; ``written`` holds the keys before anything was derived."""
    return [
        *_list_harmless(config, written),
        *list_voids(config),
        *_note_fp8(config),
        *_note_old_type(config),
        *_note_passed_over(config),
        *_note_clipping(config),
        *_note_gated_width(config),
        *_note_narrow_width(config),
        *_note_unreached(config),
        *note_sizes(config),
        *_note_whole_steps(config),
        *_note_blend(config),
        *_note_offloaded_sums(config),
    ]


def _note_offloaded_sums(config: NeoxConfig) -> list[str]:
    if config.zero_stage != 2 or not offloads_optimizer(config) or not wants_wide_sums(config):
        return []
    return [
        "zero_optimization.offload_optimizer at stage 2: gradients of several micro-batches add up in bf16, as "
        "DeepSpeed keeps them on the host, whatever data_types.grad_accum_dtype says"
    ]


def _list_harmless(config: NeoxConfig, written: NeoxKeys) -> list[str]:
    sentences = []
    for name, field in NeoxKeys.model_fields.items():
        if name not in config.places or name in FP8_PARAMETERS or read_status(field) != "harmless":
            continue
        if getattr(written, name) != field.get_default(call_default_factory=True):
            sentences.append(f"{config.places[name]}: {name} has no effect here: {field.description}")
    return sentences


def _note_fp8(config: NeoxConfig) -> list[str]:
    written = [name for name in FP8_PARAMETERS if name in config.places]
    if not written or uses_fp8(config):
        return []
    return [
        f"{config.places[written[0]]}: {', '.join(written)} do not switch FP8 on by themselves; "
        "te_fp8: true, te_fp8_recipe or te_fp8_mha: true does"
    ]


def _note_old_type(config: NeoxConfig) -> list[str]:
    if not names_bfloat16(config.fp16):
        return []
    sentence = (
        "fp16.type bfloat16 trains in bfloat16, as GPT-NeoX did when it had this key (today it would take fp16); "
        "precision: bfloat16 says the same"
    )
    return [lead(config.places, sentence, "fp16.type")]


def _note_passed_over(config: NeoxConfig) -> list[str]:
    """Parameters of the optimizer that say what is done anyway, or choose a library that is not used."""
    params = (config.optimizer or {}).get("params", {})
    return [
        f"{place}: optimizer.params.{name} has no effect here: the optimizer is this project's choice"
        for name in PASSED_OVER_PARAMS.get(config.optimizer_type, ())
        if not is_off(params.get(name)) and (place := find_place(config.places, f"optimizer.params.{name}"))
    ]


def _note_clipping(config: NeoxConfig) -> list[str]:
    if config.gradient_clipping != 1.0:
        return []
    return [
        "gradient_clipping 1.0 is in force; GPT-NeoX drops this one value and trains without clipping, "
        "which is gradient_clipping: 0 here"
    ]


def _note_gated_width(config: NeoxConfig) -> list[str]:
    """GPT-NeoX's convention, by which three gated matrices hold as many numbers as two plain ones."""
    if config.activation not in GATED_ACTIVATIONS:
        return []
    if config.expansion_factor is not None:
        source, size = "expansion_factor", int(config.expansion_factor * config.hidden_size)
        told = f"expansion_factor {show_value(config.expansion_factor)}"
    else:
        source, size = "intermediate_size", config.intermediate_size or 4 * config.hidden_size
        told = f"intermediate_size {size}" + ("" if config.intermediate_size else " (4 x hidden_size)")
    sentence = (
        f"{told} gives activation {config.activation} a gated width of {config.ffn_width}, as in GPT-NeoX; "
        f"for a width W write intermediate_size: 3 x W ({3 * size} for {size})"
    )
    return [lead(config.places, sentence, source if source in config.places else "activation")]


def _note_narrow_width(config: NeoxConfig) -> list[str]:
    """A width far below what any model has: mostly a slip, or another convention."""
    if config.ffn_width >= config.hidden_size:
        return []
    sentence = (
        f"the MLP is {config.ffn_width} wide, narrower than hidden_size {config.hidden_size}; most models have 2.5 "
        "to 4 times hidden_size"
    )
    source = "intermediate_size" if "intermediate_size" in config.places else "expansion_factor"
    return [lead(config.places, sentence, source)]


def _note_unreached(config: NeoxConfig) -> list[str]:
    """Numbers beyond what they count."""
    sentences = []
    beyond = [step for step in config.extra_save_iters or () if step > (config.train_iters or step)]
    if beyond and "extra_save_iters" in config.places:
        sentences.append(
            f"{config.places['extra_save_iters']}: extra_save_iters {', '.join(map(str, beyond))} lie beyond "
            f"train_iters {config.train_iters} and are not reached"
        )
    together = config.checkpoint_num_layers
    if config.checkpoint_activations and together > config.num_layers and "checkpoint_num_layers" in config.places:
        sentences.append(
            f"{config.places['checkpoint_num_layers']}: checkpoint_num_layers {together} is more than num_layers "
            f"{config.num_layers}: all layers are recomputed together"
        )
    return sentences


def _note_blend(config: NeoxConfig) -> list[str]:
    """What is left for ``data_path`` beside a blend."""
    if not config.data_path or config.train_data_paths is None or "data_path" not in config.places:
        return []
    rest = "the tokenizer" + ("" if config.valid_data_paths or not config.eval_iters else " and the validation")
    return [f"{config.places['data_path']}: data_path gives {rest}; the training reads train_data_paths"]


def _note_whole_steps(config: NeoxConfig) -> list[str]:
    """When a compression begins that sends whole gradients first, or that it never does."""
    method = config.gradient_compression
    if uses_one_bit(config):
        return [f"gradient_compression {method}: whole gradients for {choose_one_bit_warmup(config)} steps, then signs"]
    if method == "powersgd":
        return _note_never(config, "powersgd_start_step", config.powersgd_start_step)
    if method != "local_update":
        return []
    chosen = choose_local_update(config)
    return _note_never(config, "local_update_start_step", chosen.start_step) or [
        f"gradient_compression {method}: whole gradients for {chosen.start_step} steps, then an outer step every "
        f"{chosen.every} (lr {config.local_update_lr:g}, momentum {chosen.momentum:g})"
    ]


def _note_never(config: NeoxConfig, key: str, start: int) -> list[str]:
    if config.train_iters is None or start < config.train_iters:
        return []
    sentence = (
        f"gradient_compression {config.gradient_compression} would begin after step {start} ({key}), "
        f"train_iters is {config.train_iters}: all gradients travel whole"
    )
    return [lead(config.places, sentence, key)]
