"""Starting values, drawn for each parameter from its own generator.

A parameter's values depend on the seed and its canonical name only: not on the order of construction, the number of
ranks, the device, or the vocabulary's padding.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import nn

from neox_train.config.architecture import Architecture
from neox_train.config.parameters import Parameter, list_parameters
from neox_train.errors import ConfigError
from neox_train.model.parallel.cutting import cut


def initialise(
    model: nn.Module, architecture: Architecture, seed: int, *, tensor_rank: int = 0, tensor_size: int = 1
) -> None:
    """Set every parameter of ``model`` in place; vocabulary padding rows become zero.

    A tensor-parallel rank takes its shard of the one whole draw. Parameters of other pipeline stages are passed over.
    """
    own = dict(model.named_parameters())
    with torch.no_grad():
        for parameter in list_parameters(architecture):
            if parameter.name in own:
                whole = draw(parameter, architecture, seed)
                dim, parts = parameter.shard_dim, parameter.shard_parts
                own[parameter.name].copy_(cut(whole, dim=dim, parts=parts, rank=tensor_rank, size=tensor_size))


def draw(parameter: Parameter, architecture: Architecture, seed: int) -> torch.Tensor:
    """The whole starting tensor of one parameter, fp32 on the CPU."""
    if parameter.initialiser == "zeros":
        return torch.zeros(parameter.shape)
    if parameter.initialiser == "ones":
        return torch.ones(parameter.shape)
    a = architecture
    method = a.init_method if parameter.initialiser == "input" else a.output_layer_init_method
    values = torch.zeros(parameter.shape)
    drawn = values[: a.vocab_size] if parameter.is_vocabulary else values
    _fill(drawn, method, a, make_generator(seed, parameter.name))
    return values.mul_(mup_scale(parameter, a)) if a.mup_width else values


def mup_scale(parameter: Parameter, architecture: Architecture) -> float:
    """muP's factor of initial values: the deviation of a layer's matrices falls with the root of the width."""
    width = architecture.mup_width if parameter.is_hidden_matrix else None
    return architecture.mup_init_scale / math.sqrt(width or 1.0)


def make_generator(seed: int, name: str) -> torch.Generator:
    """A CPU generator that depends on the seed and the name only."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    # torch's CPU generator reads 32 bits of a seed.
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))


def normal_std(method: str, architecture: Architecture) -> float | None:
    """Standard deviation of the methods that draw from a normal distribution (GPT-NeoX's formulas), else None."""
    std, depth, width = architecture.init_method_std, architecture.num_layers, architecture.hidden_size
    return {
        "normal": std,
        "scaled_normal": std / math.sqrt(2 * depth),
        "single_residual_scaled_normal": std / math.sqrt(depth),
        "small_init": math.sqrt(2 / (5 * width)),
        "wang_init": 2 / (depth * math.sqrt(width)),
    }.get(method)


def _fill(values: torch.Tensor, method: str, architecture: Architecture, generator: torch.Generator) -> None:
    std = normal_std(method, architecture)
    if std is not None:
        values.normal_(0.0, std, generator=generator)
    elif method == "xavier_uniform":
        nn.init.xavier_uniform_(values, generator=generator)
    elif method == "xavier_normal":
        nn.init.xavier_normal_(values, generator=generator)
    elif method == "orthogonal":
        nn.init.orthogonal_(values, gain=math.sqrt(2), generator=generator)
    elif method == "scaled_orthogonal":
        nn.init.orthogonal_(values, gain=math.sqrt(2 / architecture.num_layers), generator=generator)
    else:
        raise ConfigError(f"init_method: {method!r} is not known; choose normal, small_init, wang_init, scaled_normal")
