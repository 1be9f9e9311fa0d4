"""The peers' models in bf16 on the GPU, and the function that gives each one's mean loss."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.rows import Size

ComputeLoss = Callable[[torch.Tensor], torch.Tensor]
_PADDED_TO = 128


def build_peer(peer: str, size: Size, *, fp8: bool, recompute: bool = False) -> tuple[nn.Module, ComputeLoss]:
    """The model of ``hugging-face``, ``megatron`` or ``te-stack``, and its loss of tokens [batch, sequence + 1]."""
    if peer == "hugging-face":
        return _build_hugging_face(size)
    if peer == "megatron":
        return _build_megatron(size, fp8=fp8, recompute=recompute)
    if peer == "te-stack":
        return _build_te_stack(size, fp8=fp8)
    raise KeyError(peer)


def pad_vocabulary(vocab_size: int, tensor: int = 1) -> int:
    """Rows of the vocabulary's matrices, a multiple of 128 on each of ``tensor`` ranks."""
    multiple = _PADDED_TO * tensor
    return -(-vocab_size // multiple) * multiple


def _build_hugging_face(size: Size) -> tuple[nn.Module, ComputeLoss]:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=pad_vocabulary(size.vocab_size),
        hidden_size=size.hidden_size,
        num_hidden_layers=size.num_layers,
        num_attention_heads=size.num_attention_heads,
        intermediate_size=4 * size.hidden_size,
        max_position_embeddings=size.seq_length,
        hidden_act="gelu_new",
        use_parallel_residual=False,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = GPTNeoXForCausalLM(config).to("cuda", torch.bfloat16)
    compiled = torch.compile(model)

    def compute_loss(tokens: torch.Tensor) -> torch.Tensor:
        logits = compiled(input_ids=tokens[:, :-1]).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return model, compute_loss


def _build_megatron(size: Size, *, fp8: bool, recompute: bool) -> tuple[nn.Module, ComputeLoss]:
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed

    _start_alone()
    parallel_state.initialize_model_parallel(1, 1)
    model_parallel_cuda_manual_seed(1)
    config = make_megatron_config(size, fp8=fp8, recompute=recompute)
    model = GPTModel(
        config,
        get_gpt_layer_with_transformer_engine_spec(),
        vocab_size=pad_vocabulary(size.vocab_size),
        max_sequence_length=size.seq_length,
        position_embedding_type="rope",
        rotary_percent=1.0,
    ).to("cuda", torch.bfloat16)
    positions = torch.arange(size.seq_length, device="cuda").expand(size.micro_batch, -1)

    def compute_loss(tokens: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(tokens[:, :-1].contiguous(), positions, None, labels=tokens[:, 1:].contiguous())
        return loss.float().mean()

    return model, compute_loss


def make_megatron_config(size: Size, *, fp8: bool, recompute: bool, **more: Any) -> Any:
    """Megatron-Core's TransformerConfig of a size, in bf16 with the fusions it has; ``more`` are further fields."""
    from megatron.core.transformer.transformer_config import TransformerConfig

    if fp8:
        more |= {"fp8": "hybrid", "fp8_recipe": "delayed", "fp8_amax_history_len": 1}
    if recompute:
        more |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    return TransformerConfig(
        num_layers=size.num_layers,
        hidden_size=size.hidden_size,
        num_attention_heads=size.num_attention_heads,
        ffn_hidden_size=4 * size.hidden_size,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        bias_activation_fusion=True,
        bias_dropout_fusion=True,
        apply_rope_fusion=True,
        cross_entropy_loss_fusion=True,
        gradient_accumulation_fusion=False,
        **more,
    )


def _build_te_stack(size: Size, *, fp8: bool) -> tuple[nn.Module, ComputeLoss]:
    import transformer_engine.pytorch as te
    from transformer_engine.common.recipe import DelayedScaling

    width = size.hidden_size
    blocks = [
        te.TransformerLayer(
            width,
            4 * width,
            size.num_attention_heads,
            layer_number=number + 1,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            self_attn_mask_type="causal",
            attn_input_format="bshd",
            fuse_qkv_params=True,
            params_dtype=torch.bfloat16,
        )
        for number in range(size.num_layers)
    ]
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(pad_vocabulary(size.vocab_size), width),
            "blocks": nn.ModuleList(blocks),
            "norm": nn.LayerNorm(width),
            "output": nn.Linear(width, pad_vocabulary(size.vocab_size), bias=False),
        }
    ).to("cuda", torch.bfloat16)
    angles = te.RotaryPositionEmbedding(width // size.num_attention_heads)(size.seq_length).cuda()
    recipe = DelayedScaling(amax_history_len=1, amax_compute_algo="most_recent")

    def compute_loss(tokens: torch.Tensor) -> torch.Tensor:
        hidden = model["embedding"](tokens[:, :-1])
        context: AbstractContextManager[Any] = te.autocast(enabled=True, recipe=recipe) if fp8 else nullcontext()
        with context:
            for block in blocks:
                hidden = block(hidden, rotary_pos_emb=angles)
        logits = model["output"](model["norm"](hidden))
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return model, compute_loss


def _start_alone() -> None:
    defaults = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", 0))
