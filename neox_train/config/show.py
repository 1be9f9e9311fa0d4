"""A resolved configuration as a person reads it: what it comes to, then every key, grouped, derived values first."""

from __future__ import annotations

from pydantic import BaseModel

from neox_train.config.architecture import Architecture
from neox_train.config.load import dump_yaml
from neox_train.config.parameters import count_non_embedding_parameters, count_parameters
from neox_train.config.schema import SECTIONS, NeoxConfig
from neox_train.config.sections.derived import DerivedKeys
from neox_train.config.sizes import count_step_tokens, say_count


def render_config(config: NeoxConfig) -> str:
    """YAML in groups, each under a comment; reading it back gives an equal configuration."""
    values = config.to_dict()
    parts = []
    groups: list[tuple[str, type[BaseModel]]] = [("Derived from the keys below", DerivedKeys), *SECTIONS]
    for title, section in groups:
        group = {key: values.pop(key) for key in section.model_fields if key in values}
        if group:
            parts.append(f"# {title}\n{dump_yaml(group)}")
    return "\n".join(parts)


def render_sizes(config: NeoxConfig) -> str:
    """Comment lines: processes, tokens of a step and of the training, parameters, widths.

    ``config`` has a vocabulary (``with_vocab_size``).
    """
    lines = [
        _say_processes(config),
        _say_step(config),
        _say_training(config),
        *_say_parameters(config),
        _say_widths(config),
    ]
    return "\n".join(["# What it comes to", *(f"#   {line}" for line in lines), ""])


def _say_processes(config: NeoxConfig) -> str:
    return (
        f"processes: {config.world_size:,} = {config.data_parallel_size:,} data-parallel x "
        f"{config.model_parallel_size} tensor-parallel x {max(1, config.pipe_parallel_size)} pipeline-parallel"
    )


def _say_step(config: NeoxConfig) -> str:
    return (
        f"a step: {config.train_batch_size:,} sequences (micro-batch {config.train_micro_batch_size_per_gpu:,} x "
        f"accumulation {config.gradient_accumulation_steps:,} x {config.data_parallel_size:,} ranks) of "
        f"{config.seq_length:,} tokens = {say_count(count_step_tokens(config))} tokens"
    )


def _say_training(config: NeoxConfig) -> str:
    if config.train_iters is None:
        return "the training: as long as train_iters will say"
    tokens = config.train_iters * count_step_tokens(config)
    parameters = count_parameters(Architecture.from_config(config))
    return (
        f"the training: {config.train_iters:,} steps = {say_count(tokens)} tokens, "
        f"{tokens / parameters:,.3g} for each parameter"
    )


def _say_parameters(config: NeoxConfig) -> list[str]:
    architecture = Architecture.from_config(config)
    total, inner = count_parameters(architecture), count_non_embedding_parameters(architecture)
    tied = ", shared with the output" if architecture.tied_embeddings else " and output"
    return [
        f"parameters: {total:,} = {inner:,} non-embedding + {total - inner:,} of embeddings{tied}",
        f"vocabulary: {architecture.vocab_size:,} tokens, padded to {architecture.padded_vocab_size:,}",
    ]


def _say_widths(config: NeoxConfig) -> str:
    architecture = Architecture.from_config(config)
    gated = f", gated by {architecture.activation}: three matrices" if architecture.is_gated else ""
    heads, groups = architecture.num_attention_heads, architecture.num_kv_heads
    shared = f", {groups} of keys and values" if groups != heads else ""
    return (
        f"widths: hidden {architecture.hidden_size:,}, MLP {architecture.ffn_width:,} "
        f"({architecture.ffn_width / architecture.hidden_size:.3g} x hidden{gated}), "
        f"{heads} heads of {architecture.head_dim}{shared}"
    )
