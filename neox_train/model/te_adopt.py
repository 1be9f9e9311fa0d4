"""Transformer Engine modules whose parameters stand under the canonical names of the plain layers."""

from __future__ import annotations

from typing import Any

from torch import nn


class Weights(nn.Module):
    """``weight`` and ``bias`` of a layer that is computed elsewhere; holds names, computes nothing."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.weight = weight
        self.register_parameter("bias", bias)


class Adopter(nn.Module):
    """A module with inner modules that are not its children, so that their own parameter names appear nowhere.

    The inner modules hold the very same Parameter objects that the subclasses register under canonical names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["inner"] = {}

    def adopt(self, name: str, module: nn.Module) -> nn.Module:
        """Keep ``module`` under ``name`` in ``inner``."""
        self.__dict__["inner"][name] = module
        return module

    def train(self, mode: bool = True) -> Adopter:
        """Set the mode here and in the inner modules."""
        super().train(mode)
        for module in self.__dict__["inner"].values():
            module.train(mode)
        return self


def find_te_modules(model: nn.Module) -> dict[str, Any]:
    """Every Transformer Engine module that computes, by a name that does not depend on the rank."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if hasattr(module, "fp8_meta"):
            found[name] = module
        inner: dict[str, Any] = module.__dict__.get("inner", {})
        for own, adopted in inner.items():
            found |= {
                f"{name}.{own}{'.' if rest else ''}{rest}": deep
                for rest, deep in adopted.named_modules()
                if hasattr(deep, "fp8_meta")
            }
    return found
