from __future__ import annotations

import torch

from neox_train.model.norm import build_norm
from tests.model.architectures import make_architecture


def test_epsilon_and_statistics() -> None:
    hidden = torch.randn(3, 64) * 0.01
    for name in ("layernorm", "te_layernorm", "non_parametric_layernorm"):
        norm = build_norm(make_architecture(norm=name, norm_epsilon=1e-3))
        centred = hidden - hidden.mean(-1, keepdim=True)
        wanted = centred / torch.sqrt(hidden.var(-1, unbiased=False, keepdim=True) + 1e-3)
        assert torch.allclose(norm(hidden), wanted, atol=1e-5)
    for name in ("rmsnorm", "te_rmsnorm"):
        norm = build_norm(make_architecture(norm=name, norm_epsilon=1e-3))
        wanted = hidden / torch.sqrt(hidden.square().mean(-1, keepdim=True) + 1e-3)
        assert torch.allclose(norm(hidden), wanted, atol=1e-5)
