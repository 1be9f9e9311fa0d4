"""Keys of attention and of the layer kinds that replace it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused

ATTENTION_KINDS = (
    "global",
    "flash",
    "local",
    "sparse_fixed",
    "sparse_variable",
    "bigbird",
    "bslongformer",
    "gmlp",
    "amlp",
    "rwkv",
    "mamba",
)


class AttentionKeys(BaseModel):
    """Kinds of attention and their numerics."""

    attention_config: list[Any] | None = implemented(
        None,
        'Kind of each layer: a flat list, or [[["global"], "all"]]-style patterns; default all global. '
        "Built: global, flash (the same), local.",
    )
    sliding_window_width: int | None = implemented(
        None, "Tokens that each position sees before its own, in global and flash layers; default all.", ge=1
    )
    document_attention: bool = implemented(
        False,
        "New here: each token sees its own document only, and learned or sinusoidal positions count from its start.",
    )
    sparsity_config: dict[str, Any] = implemented(
        {}, "Window of local layers: block (16 tokens) and num_local_blocks (4; half of them before a token's own)."
    )
    attention_softmax_in_fp32: bool = harmless(False, "Softmax in fp32; the attention kernels here always do so.")
    apply_query_key_layer_scaling: bool = harmless(False, "fp16 overflow guard; the kernels here need none.")
    scaled_upper_triang_masked_softmax_fusion: bool = harmless(False, "Fused causal softmax; attention is fused.")
    scaled_masked_softmax_fusion: bool = harmless(False, "Fused masked softmax; attention is fused.")
    bias_gelu_fusion: bool = implemented(False, "Selects the tanh form of GELU, as the fused kernel computes it.")
    bias_dropout_fusion: bool = harmless(False, "Fused bias and dropout; compiled here.")
    use_flashattn_swiglu: bool = harmless(False, "Fused SwiGLU kernel.")
    fused_kernels_build_path: str | None = harmless(None, "Folder for compiled kernels; none are compiled.")
    fp16_lm_cross_entropy: bool = refused(False, "Loss in fp16.", remedy="remove it; the loss is computed in fp32")


class OtherLayerKeys(BaseModel):
    """Layers that are not attention: gMLP, RWKV, Mamba, mixtures of experts, soft prompts."""

    gmlp_attn_dim: int = harmless(64, "Width of aMLP's small attention; read only by gmlp and amlp layers.")
    dim_att: int | None = harmless(None, "RWKV; read only by rwkv layers.")
    head_size: int | None = harmless(None, "RWKV; read only by rwkv layers.")
    ffn_dim: int | None = harmless(None, "RWKV; read only by rwkv layers.")
    mamba_selective_scan_fusion: bool = harmless(False, "Mamba; read only by mamba layers.")
    mamba_causal_conv_fusion: bool = harmless(False, "Mamba; read only by mamba layers.")
    mamba_inner_func_fusion: bool = harmless(False, "Mamba; read only by mamba layers.")
    mamba_selective_fp32_params: bool = harmless(True, "Mamba; read only by mamba layers.")
    mamba_use_bias_in_conv: bool = harmless(True, "Mamba; read only by mamba layers.")
    mamba_use_bias_in_linears: bool = harmless(False, "Mamba; read only by mamba layers.")
    moe_num_experts: int = refused(
        1,
        "Experts of a mixture-of-experts MLP.",
        remedy="remove it; a dense MLP of any intermediate_size is built",
        ge=1,
    )
    moe_expert_interval: int = harmless(1, "Layers between mixture layers; read only with experts.")
    moe_top_k: int = harmless(1, "Experts a token goes to; read only with experts.")
    moe_router_type: str = harmless("sinkhorn", "Router; read only with experts.")
    moe_lbl_in_fp32: bool = harmless(False, "Load-balancing loss; without effect in GPT-NeoX too.")
    moe_jitter_eps: float | None = harmless(None, "Router noise; read only with experts.")
    soft_prompt_tuning: dict[str, Any] | None = refused(
        None, "Train a soft prompt only.", remedy="remove it; all weights are trained"
    )


class TransformerEngineKeys(BaseModel):
    """Transformer Engine layers and FP8."""

    te_columnparallel: bool = implemented(False, "Column-parallel matrices by Transformer Engine.")
    te_rowparallel: bool = implemented(False, "Row-parallel matrices by Transformer Engine.")
    te_layernorm_mlp: bool = implemented(
        False, "Norm and MLP in one Transformer Engine layer; its GELU is the tanh form."
    )
    te_mha: bool = implemented(False, "Attention with its norm by Transformer Engine.")
    te_fp8: bool = implemented(False, "New here: switch FP8 on (compute capability 8.9 or more).")
    te_fp8_recipe: Literal["delayed", "current", "blockwise", "mxfp8"] | None = implemented(
        None, "New here: FP8 scaling recipe, delayed by default; naming one switches FP8 on."
    )
    te_fp8_mha: bool = implemented(
        False,
        "FP8 in attention too, with te_mha, delayed scaling and heads of 128; switches FP8 on. On an H200 its kernels "
        "are slower than those of 16 bits.",
    )
    te_fp8_format: Literal["e4m3", "hybrid"] = implemented(
        "hybrid", "Number format of FP8 (hybrid: e5m2 for gradients); does not switch FP8 on."
    )
    te_fp8_wgrad: bool = implemented(True, "Weight gradients in FP8; does not switch FP8 on.")
    te_fp8_amax_history_len: int = implemented(1, "Steps of amax history; does not switch FP8 on.", ge=1)
    te_fp8_amax_compute_algo: Literal["most_recent", "max"] = implemented(
        "most_recent", "How amax is read off its history; does not switch FP8 on."
    )
    te_fp8_margin: int = implemented(0, "Safety margin of FP8 scales; does not switch FP8 on.", ge=0)
    te_fp8_first_last_layers_bf16: int = implemented(
        0,
        "New here: so many of the first layers, and of the last, stay in 16 bits under FP8; does not switch FP8 on.",
        ge=0,
    )
