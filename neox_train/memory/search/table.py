"""The plan for a terminal: the best layouts, the best of each number of nodes, why the others lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neox_train.memory.search.budget import Cost
from neox_train.memory.search.layouts import Refusals
from neox_train.memory.search.search import Choice
from neox_train.memory.wording import word_size

if TYPE_CHECKING:
    from rich.table import Table

Row = tuple[Choice, Cost, float]
"""A layout, what its training costs, and its MFU."""

_HEADS = (
    "nodes",
    "tp",
    "pp",
    "ZeRO",
    "micro-batch",
    "accumulation",
    "checkpointing",
    "precision",
    "8-bit",
    "memory",
    "tokens/s/GPU",
    "MFU",
    "days",
    "GPU-hours",
    "jobs",
    "MWh",
)


def build_plan_table(rows: Sequence[Row], *, title: str) -> Table:
    """One line a layout."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for head in _HEADS:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*_write_row(*row))
    return table


def _write_row(choice: Choice, cost: Cost, mfu: float) -> tuple[str, ...]:
    layout, plan = choice.layout, choice.layout.plan
    return (
        str(layout.nodes),
        str(layout.tensor_parallel),
        str(layout.stages),
        str(layout.zero_stage),
        str(plan.micro_batch),
        str(plan.accumulation_steps),
        "yes" if plan.checkpoint_layers else "no",
        "FP8" if plan.fp8 else plan.precision,
        "yes" if plan.optimizer == "adam_8bit" else "no",
        word_size(choice.memory),
        f"{choice.step.tokens_per_second_per_gpu:,.0f}",
        f"{mfu:.0%}",
        f"{cost.days:.1f}",
        f"{cost.gpu_hours:,.0f}",
        str(cost.jobs),
        "" if cost.megawatt_hours is None else f"{cost.megawatt_hours:.2f}",
    )


def word_refusals(refusals: Refusals) -> list[str]:
    """One line a reason, the commonest first, with an example where there is one."""
    lines = []
    for reason, count in sorted(refusals.counts.items(), key=lambda item: -item[1]):
        example = refusals.examples[reason]
        lines.append(f"{count:6} {reason}" + (f", such as: {example}" if example else ""))
    return lines
