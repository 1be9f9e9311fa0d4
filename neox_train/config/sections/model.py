"""Keys of the model: sizes, norms, positions, biases, initial values."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused
from neox_train.config.sections.whole import Whole

Norm = Literal["layernorm", "rmsnorm", "scalenorm", "non_parametric_layernorm", "te_layernorm", "te_rmsnorm"]
Positions = Literal["learned", "rotary", "sinusoidal", "rpe", "alibi", "none"]
Activation = Literal[
    "gelu",
    "geglu",
    "relu",
    "squared_relu",
    "softsign",
    "swish",
    "mish",
    "silu",
    "reglu",
    "swiglu",
    "bilinear",
    "glu",
]
InitMethod = Literal[
    "normal",
    "scaled_normal",
    "single_residual_scaled_normal",
    "orthogonal",
    "scaled_orthogonal",
    "xavier_uniform",
    "xavier_normal",
    "wang_init",
    "small_init",
]


class ModelKeys(BaseModel):
    """Sizes and arithmetic of the decoder."""

    num_layers: int = implemented(..., "Transformer layers.", ge=1, le=10_000)
    hidden_size: int = implemented(..., "Width of the residual stream.", ge=1)
    num_attention_heads: int = implemented(..., "Attention heads; must divide hidden_size.", ge=1)
    num_kv_heads: int | None = implemented(None, "Key-value heads (grouped-query attention); default one a head.", ge=1)
    seq_length: int | None = implemented(None, "Tokens in a training sequence; default max_position_embeddings.", ge=1)
    max_position_embeddings: int = implemented(..., "Longest sequence the model has positions for.", ge=1)
    intermediate_size: int | None = implemented(
        None, "Width I of the MLP, default 4 x hidden_size; a gated MLP is int(2I/3)/2 wide.", ge=1
    )
    expansion_factor: float | None = implemented(
        None, "MLP width over hidden_size, instead of intermediate_size.", gt=0
    )
    mlp_multiple_of: int = implemented(1, "Round the MLP's width up to a multiple of this.", ge=1)
    make_vocab_size_divisible_by: int = implemented(
        128, "Pad the vocabulary to a multiple of this times model_parallel_size.", ge=1
    )
    no_weight_tying: bool = implemented(False, "True gives the output its own matrix; false shares the embedding's.")
    gpt_j_residual: bool = implemented(
        False, "Attention and MLP of the same input, added together (parallel residual)."
    )
    gpt_j_tied: bool = implemented(False, "Parallel residual with one norm for attention and MLP.")
    activation: Activation = implemented("gelu", "Activation of the MLP.")
    use_bias_in_norms: bool = harmless(True, "Read nowhere by GPT-NeoX either.")
    use_bias_in_attn_linear: bool = implemented(True, "Biases in the attention's two matrices.")
    use_bias_in_mlp: bool = implemented(True, "Biases in the MLP's two matrices.")
    hidden_dropout: float = implemented(0.0, "Dropout after attention and MLP.", ge=0, lt=1)
    attention_dropout: float = implemented(0.0, "Dropout of attention weights.", ge=0, lt=1)
    output_layer_parallelism: Literal["column", "row"] = refused(
        "column", "How the output matrix is cut over ranks.", remedy="remove it; the output matrix is cut by columns"
    )
    num_unique_layers: int | None = harmless(None, "Layer sharing; without effect in GPT-NeoX too.")
    param_sharing_style: str = harmless("grouped", "Layer sharing; without effect in GPT-NeoX too.")


class NormKeys(BaseModel):
    """Normalisation layers."""

    norm: Norm = implemented("layernorm", "Kind of normalisation.")
    layernorm_epsilon: float = implemented(1e-5, "Epsilon of LayerNorm.", gt=0)
    rms_norm_epsilon: float = implemented(1e-8, "Epsilon of RMSNorm.", gt=0)
    scalenorm_epsilon: float = implemented(1e-8, "Epsilon of ScaleNorm.", gt=0)
    use_qk_layernorm: bool = implemented(
        False, "One norm, over all heads together, of queries and of keys, before they rotate."
    )
    layernorm_fusion: bool = harmless(False, "Fused LayerNorm kernel; torch's own is fused.")
    rmsnorm_fusion: bool = harmless(False, "Fused RMSNorm kernel; torch's own is fused.")


class PositionKeys(BaseModel):
    """Where tokens stand."""

    pos_emb: Positions = implemented("learned", "Kind of positions.")
    rotary_pct: float = implemented(1.0, "Share of each head's dimensions that rotate.", gt=0, le=1)
    rotary_emb_base: Whole = implemented(10000, "Base of the rotary frequencies.", ge=1)
    rotary_save_freqs_buffer: bool = harmless(False, "Store rotary frequencies in checkpoints; they are recomputed.")
    rope_fusion: bool = implemented(
        False,
        "Rotate queries and keys in one compiled kernel where layers are not compiled as a whole (tensor and pipeline "
        "parallel, ZeRO 3); compiled layers and Transformer Engine's have it anyway.",
    )
    rpe_num_buckets: int = harmless(32, "Buckets of pos_emb rpe.")
    rpe_max_distance: int = harmless(128, "Distance of the last bucket of pos_emb rpe.")
    opt_pos_emb_offset: int = refused(
        0, "Offset of learned positions, as OPT has.", remedy="remove it; pos_emb: learned counts positions from 0"
    )


class InitialisationKeys(BaseModel):
    """Initial values of weights."""

    init_method: InitMethod = implemented("normal", "Initial values of embeddings and of each block's first matrices.")
    output_layer_init_method: InitMethod = implemented("scaled_normal", "Initial values of each block's last matrices.")
    init_method_std: float = implemented(0.02, "Standard deviation of normal initial values.", gt=0)
    use_mup: bool = implemented(
        False, "Maximal-update parametrisation: hyper-parameters tuned on a narrow model hold for a wider one (Adam)."
    )
    mup_base_hidden_size: int | None = implemented(
        None, "New here: muP: hidden_size of the tuned model, in place of base_shapes_file.", ge=1
    )
    coord_check: bool = refused(
        False, "muP: plot coordinate checks.", remedy="remove it; tests of the project make the check"
    )
    save_base_shapes: bool = refused(False, "muP: write base shapes.", remedy="remove it and set mup_base_hidden_size")
    base_shapes_file: str | None = implemented(
        None,
        "muP: a file of the mup package, whose word embeddings tell the tuned model's hidden_size; GPT-NeoX's name "
        "without the rank's suffix finds FILE.0.",
    )
    mup_init_scale: float = implemented(1.0, "muP: initial values of all matrices times this.", gt=0)
    mup_attn_temp: float = harmless(1.0, "muP; without effect in GPT-NeoX too.")
    mup_output_temp: float = harmless(1.0, "muP; without effect in GPT-NeoX too.")
    mup_embedding_mult: float = implemented(1.0, "muP: what the embeddings give, times this.", gt=0)
    mup_rp_embedding_mult: float = harmless(1.0, "muP; of relative positions, which are not built.")
    mup_width_scale: int = harmless(2, "muP; read only with save_base_shapes.")
