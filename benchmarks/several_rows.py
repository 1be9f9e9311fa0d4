"""The rows of benchmarks/several_gpus.py: how each cuts a model over the GPUs of one node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_TE = {"te_mha": True, "te_layernorm_mlp": True}
_FP8 = {**_TE, "te_fp8": True}
_RECOMPUTED = {"checkpoint_activations": True}


@dataclass(frozen=True, kw_only=True)
class SeveralRow:
    """One measurement on ``gpus`` processes; ``peer`` is Megatron-Core's, at the same degrees."""

    name: str
    size: str
    gpus: int
    tensor: int = 1
    pipeline: int = 1
    accumulation: int = 1
    changes: dict[str, Any] = field(default_factory=dict)
    peer: bool = False
    fp8: bool = False
    recompute: bool = False

    def describe(self) -> dict[str, Any]:
        """The keys of GPT-NeoX that the row adds to its size's."""
        return {
            "model_parallel_size": self.tensor,
            "sequence_parallel": self.tensor > 1,
            "pipe_parallel_size": self.pipeline if self.pipeline > 1 else 0,
            "gradient_accumulation_steps": self.accumulation,
            **(_FP8 if self.fp8 else {}),
            **(_RECOMPUTED if self.recompute else {}),
            **self.changes,
        }


def _zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, "overlap_comm": True}}


def _list_rows() -> list[SeveralRow]:
    rows = []
    for fp8, kind in ((False, "bf16"), (True, "fp8")):
        for gpus in (1, 2, 4, 8):
            rows.append(SeveralRow(name=f"1-3B/dp{gpus}/{kind}", size="1-3B", gpus=gpus, changes=_zero(1), fp8=fp8))
            rows.append(SeveralRow(name=f"1-3B/dp{gpus}/megatron-{kind}", size="1-3B", gpus=gpus, peer=True, fp8=fp8))
        for name, given in _BIG.items():
            rows.append(SeveralRow(name=f"6-7B/{name}/{kind}", size="6-7B", fp8=fp8, recompute=True, **given))
            if "zero3" not in name:
                peer = {**given, "changes": {}, "peer": True}
                rows.append(
                    SeveralRow(name=f"6-7B/{name}/megatron-{kind}", size="6-7B", fp8=fp8, recompute=True, **peer)
                )
    tiny = [
        SeveralRow(name="tiny/dp2", size="tiny", gpus=2, changes=_zero(1)),
        SeveralRow(name="tiny/dp1", size="tiny", gpus=1, changes=_zero(1)),
        SeveralRow(name="tiny/tp2", size="tiny", gpus=2, tensor=2, changes=_zero(1)),
        SeveralRow(name="tiny/pp2", size="tiny", gpus=2, pipeline=2, accumulation=4, changes=_zero(1)),
    ]
    return [*rows, *tiny]


_BIG: dict[str, dict[str, Any]] = {
    "tp2-dp4": {"gpus": 8, "tensor": 2, "changes": _zero(1)},
    "zero3-dp8": {"gpus": 8, "changes": _zero(3)},
    "pp2-dp4": {"gpus": 8, "pipeline": 2, "accumulation": 8, "changes": _zero(1)},
}


def find_several(name: str) -> SeveralRow:
    """The row of a name; KeyError, which lists them, where there is none."""
    rows = {row.name: row for row in _list_rows()}
    if name not in rows:
        raise KeyError(f"row {name}; known: {', '.join(rows)}")
    return rows[name]
