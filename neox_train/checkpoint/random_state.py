"""Random number streams of one rank, as tensors and JSON: torch, CUDA, numpy, python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

_PREFIX = "rng:"


def capture_random_state() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The streams' tensors by name (``rng:torch`` ...), and the few values that are not tensors."""
    generator, keys, position, has_gauss, cached_gaussian = np.random.get_state(legacy=True)
    version, words, gauss_next = random.getstate()
    tensors = {
        "rng:torch": torch.get_rng_state(),
        "rng:numpy": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
        "rng:python": torch.tensor(words, dtype=torch.int64),
    }
    if torch.cuda.is_available():
        tensors["rng:cuda"] = torch.cuda.get_rng_state()
    values = {
        "numpy": {
            "generator": str(generator),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached_gaussian": float(cached_gaussian),
        },
        "python": {"version": int(version), "gauss_next": gauss_next},
    }
    return tensors, values


def restore_random_state(tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Put back what ``capture_random_state`` gave; a CUDA stream is left alone on a machine without CUDA."""
    torch.set_rng_state(tensors["rng:torch"])
    if "rng:cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["rng:cuda"])
    numpy = values["numpy"]
    keys = tensors["rng:numpy"].numpy().astype(np.uint32)
    np.random.set_state((numpy["generator"], keys, numpy["position"], numpy["has_gauss"], numpy["cached_gaussian"]))
    python = values["python"]
    random.setstate((python["version"], tuple(tensors["rng:python"].tolist()), python["gauss_next"]))


def is_random_state(key: str) -> bool:
    """Whether a tensor of a rank's file is a random number stream."""
    return key.startswith(_PREFIX)
