"""The estimate as a picture: the parts of the peak, stacked against the memory of a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neox_train.files import atomic_path
from neox_train.memory.estimate import MemoryEstimate
from neox_train.memory.wording import PART_NAMES, word_size

_GIB = 1 << 30
_COLOURS = {
    "weights": "#1f4e79",
    "master_weights": "#2e75b6",
    "optimizer_states": "#7fb2e5",
    "gradients": "#548235",
    "fp8_weights": "#a9d18e",
    "activations": "#e08214",
    "logits_and_loss": "#fdb863",
    "communication": "#8073ac",
    "optimizer_step": "#b2abd2",
    "workspaces": "#d9d9d9",
    "allocator": "#a6a6a6",
    "communicators": "#c994c7",
    "process": "#595959",
}
_VERDICTS = {"fits": ("fits", "#2e7d32"), "tight": ("tight", "#b26a00"), "does_not_fit": ("does not fit", "#b71c1c")}


def draw_memory(estimate: MemoryEstimate, path: Path, *, title: str) -> None:
    """Write a PNG: one stacked bar at the peak, one thin bar a phase, the gate's limits and the budget as lines."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.2), dpi=120, layout="constrained")
    peak, phases = figure.subplots(2, 1, height_ratios=(1.0, 1.25), sharex=True)
    _draw_parts(peak, estimate)
    _draw_phases(phases, estimate)
    _draw_limits((peak, phases), estimate)
    word, colour = _VERDICTS[estimate.verdict]
    peak.set_title(
        f"{title}: {word_size(estimate.total)} of {word_size(estimate.budget)} a rank "
        f"({estimate.fraction:.0%}), {word}",
        loc="left",
        color=colour,
        fontsize=12,
        fontweight="bold",
    )
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")


def _draw_parts(axes: Any, estimate: MemoryEstimate) -> None:
    left = 0.0
    for name, size in estimate.parts.items():
        if size:
            width = size / _GIB
            label = f"{PART_NAMES[name]}  {word_size(size)}"
            axes.barh(0, width, left=left, height=0.6, color=_COLOURS[name], label=label, edgecolor="white")
            left += width
    axes.set_yticks([0], ["peak"])
    axes.set_ylim(-0.45, 0.75)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.04), ncols=3, fontsize=8.5, frameon=False)
    _clean(axes)


def _draw_phases(axes: Any, estimate: MemoryEstimate) -> None:
    names = list(estimate.phases)[::-1]
    widths = [estimate.phases[name] / _GIB for name in names]
    colours = ["#404040" if name == estimate.peak_phase else "#bdbdbd" for name in names]
    axes.barh(names, widths, height=0.6, color=colours)
    axes.set_xlabel("GiB a rank, by phase of a training step (the dark one is the peak)")
    axes.tick_params(axis="y", labelsize=8.5)
    _clean(axes)


def _draw_limits(both: tuple[Any, Any], estimate: MemoryEstimate) -> None:
    budget = estimate.budget / _GIB
    limits = (
        (estimate.gate.warn_above, "#b26a00", "--", "warn"),
        (estimate.gate.refuse_above, "#b71c1c", "--", "refuse"),
        (1.0, "black", "-", "memory"),
    )
    for axes in both:
        for fraction, colour, style, _ in limits:
            axes.axvline(fraction * budget, color=colour, linewidth=1.1, linestyle=style)
    both[0].set_xlim(0, 1.06 * max(budget, estimate.total / _GIB))
    for fraction, colour, _, word in limits:
        both[0].text(fraction * budget, 0.72, f"{word} ", color=colour, fontsize=8, ha="right", va="top", rotation=90)


def _clean(axes: Any) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
