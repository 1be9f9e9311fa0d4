"""``te_layernorm_mlp``: norm and MLP in one Transformer Engine module."""

from __future__ import annotations

from typing import Any

import torch

from neox_train.config.architecture import Architecture
from neox_train.config.fp8 import TE_ACTIVATIONS
from neox_train.errors import NotBuiltError
from neox_train.model.te import import_te, te_normalization
from neox_train.model.te_adopt import Adopter, Weights
from neox_train.model.te_split import TESplit


class TELayerNormMLP(Adopter):
    """The MLP of a block with the norm before it; parameters under ``linear1`` and ``linear2``."""

    def __init__(self, architecture: Architecture, split: TESplit) -> None:
        super().__init__()
        te = import_te()
        a = architecture
        if a.activation not in TE_ACTIVATIONS:
            raise NotBuiltError(
                f"activation {a.activation} is not built with te_layernorm_mlp; choose one of "
                f"{', '.join(TE_ACTIVATIONS)}, or set te_layernorm_mlp: false"
            )
        module: Any = self.adopt(
            "layernorm_mlp",
            te.LayerNormMLP(
                a.hidden_size,
                a.ffn_width,
                eps=a.norm_epsilon,
                bias=a.mlp_bias,
                normalization=te_normalization(a),
                activation=TE_ACTIVATIONS[a.activation],
                params_dtype=torch.float32,
                set_parallel_mode=split.group.size > 1,
                **split.arguments,
            ),
        )
        self.linear1 = Weights(module.fc1_weight, module.fc1_bias if a.mlp_bias else None)
        self.linear2 = Weights(module.fc2_weight, module.fc2_bias if a.mlp_bias else None)
        norm = self.norm()
        split.mark(
            cut=(self.linear1.weight, self.linear1.bias, self.linear2.weight),
            shared=(norm.weight, norm.bias, self.linear2.bias),
        )

    def norm(self) -> Weights:
        """The parameters of the norm, for the block's ``post_attention_layernorm``."""
        module = self.__dict__["inner"]["layernorm_mlp"]
        return Weights(module.layer_norm_weight, getattr(module, "layer_norm_bias", None))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Map the residual stream [batch, sequence, hidden], before its norm, to the same shape."""
        features: torch.Tensor = self.__dict__["inner"]["layernorm_mlp"](hidden)
        return features
