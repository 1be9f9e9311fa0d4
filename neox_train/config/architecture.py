"""The architecture a configuration describes: one frozen record, free of torch, that every room reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from neox_train.config.schema import NeoxConfig

Residual = Literal["serial", "parallel", "parallel_tied"]

GATED_ACTIVATIONS = ("geglu", "swiglu", "reglu", "bilinear", "glu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """Everything that decides a model's shapes and its arithmetic, and nothing that decides how it is trained."""

    num_layers: int
    hidden_size: int
    num_attention_heads: int
    num_kv_heads: int
    ffn_width: int
    """Width of the MLP's second matrix's input (a gated MLP's first matrix has twice as many rows)."""
    seq_length: int
    max_position_embeddings: int
    vocab_size: int
    """Tokens the tokenizer really has."""
    padded_vocab_size: int
    """Rows of the embedding and output matrices; rows past ``vocab_size`` are zero and never predicted."""
    residual: Residual
    tied_embeddings: bool
    norm: str
    norm_epsilon: float
    activation: str
    """``gelu`` is the erf form, ``gelu_tanh`` the tanh approximation, which ``bias_gelu_fusion`` and
    ``te_layernorm_mlp`` select.
    """
    pos_emb: str
    rotary_pct: float
    rotary_emb_base: int
    attention_bias: bool
    mlp_bias: bool
    hidden_dropout: float
    attention_dropout: float
    attention_layers: tuple[str, ...]
    init_method: str
    output_layer_init_method: str
    init_method_std: float
    qk_norm: bool = False
    """One norm over all heads together, applied to queries and to keys before they rotate."""
    sliding_window: int | None = None
    """Positions before its own that a token sees in ``global`` and ``flash`` layers; None for all."""
    local_block: int = 16
    """Tokens of a block of a ``local`` layer."""
    local_blocks: int = 4
    """Blocks of a ``local`` layer's window; half of them lie before a token's own."""
    mup_width: float | None = None
    """muP: ``hidden_size`` over that of the tuned model; None without muP."""
    mup_embedding_multiplier: float = 1.0
    mup_init_scale: float = 1.0

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def attention_scale(self) -> float:
        """Factor of the scores: muP's falls with the width, because trained queries and keys are correlated."""
        return 1.0 / self.head_dim if self.mup_width else self.head_dim**-0.5

    @property
    def output_multiplier(self) -> float:
        """Factor of the hidden states that the logits are made from."""
        return 1.0 / self.mup_width if self.mup_width else 1.0

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of each head that rotate (0 without rotary positions)."""
        return int(self.head_dim * self.rotary_pct) if self.pos_emb == "rotary" else 0

    @property
    def is_gated(self) -> bool:
        """Whether the MLP multiplies two projections."""
        return self.activation in GATED_ACTIVATIONS

    def needs_mask(self, kind: str) -> bool:
        """Whether layers of this kind see less than all before them, or weigh it by distance."""
        return kind == "local" or self.sliding_window is not None or self.pos_emb == "alibi"

    @property
    def qkv_rows(self) -> int:
        """Rows of the fused query-key-value matrix."""
        return (self.num_attention_heads + 2 * self.num_kv_heads) * self.head_dim

    @classmethod
    def from_config(cls, config: NeoxConfig) -> Architecture:
        """Read the architecture off a resolved configuration whose vocabulary is known (``with_vocab_size``)."""
        if config.vocab_size is None or config.padded_vocab_size is None:
            raise ValueError("the architecture needs a vocabulary size: call config.with_vocab_size first")
        residual: Residual = "serial"
        if config.gpt_j_residual:
            residual = "parallel_tied" if config.gpt_j_tied else "parallel"
        # The fused kernels, Transformer Engine's too, have the tanh form only.
        takes_tanh = config.bias_gelu_fusion or config.te_layernorm_mlp
        return cls(
            num_layers=config.num_layers,
            hidden_size=config.hidden_size,
            num_attention_heads=config.num_attention_heads,
            num_kv_heads=config.num_kv_heads or config.num_attention_heads,
            ffn_width=config.ffn_width,
            seq_length=config.seq_length,
            max_position_embeddings=config.max_position_embeddings,
            vocab_size=config.vocab_size,
            padded_vocab_size=config.padded_vocab_size,
            residual=residual,
            tied_embeddings=not config.no_weight_tying,
            norm=config.norm,
            norm_epsilon=config.norm_epsilon,
            activation="gelu_tanh" if config.activation == "gelu" and takes_tanh else config.activation,
            pos_emb=config.pos_emb,
            rotary_pct=config.rotary_pct,
            rotary_emb_base=config.rotary_emb_base,
            attention_bias=config.use_bias_in_attn_linear,
            mlp_bias=config.use_bias_in_mlp,
            hidden_dropout=config.hidden_dropout,
            attention_dropout=config.attention_dropout,
            attention_layers=tuple(config.attention_layers),
            init_method=config.init_method,
            output_layer_init_method=config.output_layer_init_method,
            init_method_std=config.init_method_std,
            mup_width=config.hidden_size / config.mup_base_hidden_size if config.mup_base_hidden_size else None,
            mup_embedding_multiplier=config.mup_embedding_mult if config.use_mup else 1.0,
            mup_init_scale=config.mup_init_scale if config.use_mup else 1.0,
            qk_norm=config.use_qk_layernorm,
            sliding_window=config.sliding_window_width,
            local_block=config.sparsity_config.get("block", 16),
            local_blocks=config.sparsity_config.get(
                "num_local_blocks", config.sparsity_config.get("num_sliding_window_blocks", 4)
            ),
        )
