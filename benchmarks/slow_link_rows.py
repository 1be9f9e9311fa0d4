"""What came of the trainings over slow links: one row a method and rate, the table and the picture of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def make_row(method: str, megabits: int, records: Sequence[Row]) -> Row:
    """Seconds and bytes of a step, without the first interval, and the validation losses with the seconds before them.

    ``records`` are the lines of metrics.jsonl. Communication is what a rank waited for collectives of gradients, or of
    what takes their place.
    """
    trained = [record for record in records if record["kind"] == "train"]
    losses, seconds, before = [], 0.0, 0
    validated = {record["step"]: record["loss"] for record in records if record["kind"] == "validation"}
    for record in trained:
        seconds += record["seconds_per_step"] * (record["step"] - before)
        before = record["step"]
        if before in validated:
            losses.append([before, seconds, validated[before]])
    steady = trained[1:]
    steps = steady[-1]["step"] - trained[0]["step"]
    traffic = [kind for record in steady for kind in record["communication"].values()]
    return {
        "method": method,
        "megabits": megabits,
        "step_seconds": sum(r["seconds_per_step"] for r in steady) / len(steady),
        "communication_seconds": sum(kind["exposed_seconds"] for kind in traffic) / steps,
        "wire_bytes": sum(kind["wire_bytes"] for kind in traffic) / steps,
        "losses": losses,
    }


def find_target(rows: Sequence[Row]) -> float | None:
    """Validation loss that ``none`` ends with."""
    return next((row["losses"][-1][2] for row in rows if row["method"] == "none"), None)


def reach(row: Row, target: float) -> tuple[int, float] | None:
    """Steps and seconds of training until the validation loss is no higher than the target; None where it never is."""
    return next(((step, seconds) for step, seconds, loss in row["losses"] if loss <= target), None)


def tell_rows(rows: Sequence[Row], target: float | None) -> Iterator[str]:
    """A table in Markdown."""
    yield f"Target: validation loss {target:.3f}" if target is not None else "No row without compression"
    yield "| Rate | Method | MB a step | Communication, s | Against `none` | Step, s | Steps to target | s to target |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        base = next(r for r in rows if r["method"] == "none" and r["megabits"] == row["megabits"])
        share = row["communication_seconds"] / base["communication_seconds"] - 1
        reached = reach(row, target) if target is not None else None
        ends = f"{reached[0]} | {reached[1]:.1f}" if reached else "not reached | -"
        yield (
            f"| {name_rate(row['megabits'])} | `{row['method']}` | {row['wire_bytes'] / 1e6:.2f} | "
            f"{row['communication_seconds']:.3f} | {share:+.0%} | {row['step_seconds']:.3f} | {ends} |"
        )


def name_rate(megabits: int) -> str:
    """As people say it."""
    return f"{megabits / 1000:g} Gb/s" if megabits >= 1000 else f"{megabits} Mb/s"


def draw_rows(rows: Sequence[Row], target: float | None, file: Path) -> None:
    """Validation loss by seconds of training, one panel a rate."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = sorted({row["megabits"] for row in rows})
    figure, panels = pyplot.subplots(1, len(rates), figsize=(4.2 * len(rates), 3.6), squeeze=False, sharey=True)
    for panel, megabits in zip(panels[0], rates, strict=True):
        for row in rows:
            if row["megabits"] == megabits:
                panel.plot(
                    [seconds for _, seconds, _ in row["losses"]],
                    [loss for *_, loss in row["losses"]],
                    label=row["method"],
                )
        if target is not None:
            panel.axhline(target, color="grey", linewidth=0.8, linestyle="--")
        panel.set_title(name_rate(megabits))
        panel.set_xlabel("seconds of training")
    panels[0][0].set_ylabel("validation loss")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
