"""Values computed from the keys: written to config.yml, checked when they are read back."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from neox_train.config.keys import derived


class DerivedKeys(BaseModel):
    """What derivation fills in, with the types that hold afterwards."""

    model_config = ConfigDict(strict=True)

    world_size: int = derived(1, "Training processes.", ge=1)
    data_parallel_size: int = derived(1, "Data-parallel degree: world_size / (tensor x pipeline).", ge=1)
    seq_length: int = derived(1, "Tokens in a training sequence.", ge=1)
    train_batch_size: int = derived(1, "Global batch in sequences.", ge=1)
    train_micro_batch_size_per_gpu: int = derived(1, "Micro-batch in sequences.", ge=1)
    gradient_accumulation_steps: int = derived(1, "Micro-batches a step on each rank.", ge=1)
    precision: Literal["fp32", "fp16", "bfloat16"] = derived("fp32", "Number format of weights and matrix products.")
    attention_layers: list[str] = derived([], "Kind of every layer.")
    ffn_width: int = derived(1, "Input width of the MLP's second matrix.", ge=1)
    norm_epsilon: float = derived(1e-5, "Epsilon of the norm in use.")
    zero_stage: int = derived(0, "ZeRO stage.", ge=0, le=3)
    optimizer_type: str = derived("adam", "Kind of optimizer, in small letters.")
    lr: float = derived(0.001, "Peak learning rate.", ge=0)
    vocab_size: int | None = derived(
        None,
        "Tokens of the tokenizer, known from the dataset; written by hand only for .bin/.idx files without vocab_file.",
        ge=1,
        le=2**31 - 1,
    )
    padded_vocab_size: int | None = derived(None, "Rows of the embedding; known after tokenizing.")
