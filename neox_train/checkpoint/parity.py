"""Logits of the trained model against those of its export, on real text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from neox_train.checkpoint.hf_shards import DTYPES
from neox_train.config.architecture import Architecture
from neox_train.errors import CheckpointError
from neox_train.model.gpt_neox import GPTNeoX

TOLERANCE = 1e-4
"""Largest difference allowed between two logits, both models computing in fp32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """How far two models are apart on the same tokens."""

    max_abs_difference: float | None
    """Largest difference of two logits; None where a logit is not finite."""
    mean_abs_difference: float | None
    argmax_agreement: float
    """Share of positions where both put the same token first."""
    trained_perplexity: float | None
    exported_perplexity: float | None
    largest_logit: float | None
    windows: int
    tokens: int
    """Predicted tokens compared."""
    tolerance: float
    within_tolerance: bool

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return dataclasses.asdict(self)


def build_trained_model(weights: Mapping[str, torch.Tensor], architecture: Architecture, *, dtype: str) -> GPTNeoX:
    """This project's model with canonical ``weights``, rounded to the export's precision, computing in fp32.

    Built without vocabulary padding, so that it shares the memory of fp32 weights instead of copying them.
    """
    with torch.device("meta"):
        model = GPTNeoX(dataclasses.replace(architecture, padded_vocab_size=architecture.vocab_size))
    state = {}
    for name, parameter in model.named_parameters():
        state[name] = weights[name][: parameter.shape[0]].to(DTYPES[dtype]).float()
    model.load_state_dict(state, assign=True)
    return model.eval()


def load_export(folder: Path) -> Any:
    """The exported model through ``from_pretrained`` in fp32; CheckpointError where a weight did not find its place."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # Its bar would fill a log file with carriage returns.
    logging.disable_progress_bar()
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
    )
    problems = [f"{kind.replace('_', ' ')} {sorted(map(str, names))[:3]}" for kind, names in report.items() if names]
    if problems:
        raise CheckpointError(
            f"{folder} does not load cleanly ({'; '.join(problems)}); delete it and run `neox-train convert` again"
        )
    return model.eval()


@torch.no_grad()
def compare(trained: GPTNeoX, exported: Any, windows: torch.Tensor, *, tolerance: float = TOLERANCE) -> Parity:
    """Compare both models on int64 ``windows`` [windows, seq_length + 1], one window at a time."""
    vocab_size = trained.architecture.vocab_size
    largest_difference = total_difference = largest_logit = 0.0
    agreeing = 0
    losses = [0.0, 0.0]
    for window in windows:
        tokens, targets = window[None, :-1], window[1:]
        mine = trained(tokens)[0, :, :vocab_size].double()
        other = exported(input_ids=tokens).logits[0].double()
        difference = (mine - other).abs()
        # torch's maximum carries NaN on, Python's max would drop it.
        largest_difference = float(torch.maximum(torch.tensor(largest_difference).double(), difference.max()))
        total_difference += float(difference.mean())
        largest_logit = max(largest_logit, float(mine.abs().max()))
        agreeing += int((mine.argmax(-1) == other.argmax(-1)).sum())
        for index, logits in enumerate((mine, other)):
            losses[index] += float(F.cross_entropy(logits, targets))
    count = len(windows)
    return Parity(
        max_abs_difference=_finite(largest_difference),
        mean_abs_difference=_finite(total_difference / count),
        argmax_agreement=agreeing / windows[:, 1:].numel(),
        trained_perplexity=_perplexity(losses[0] / count),
        exported_perplexity=_perplexity(losses[1] / count),
        largest_logit=_finite(largest_logit),
        windows=count,
        tokens=windows[:, 1:].numel(),
        tolerance=tolerance,
        within_tolerance=largest_difference <= tolerance,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _perplexity(loss: float) -> float | None:
    return math.exp(loss) if math.isfinite(loss) and loss < 700 else None
