"""The estimate as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neox_train.memory.wording import PART_NAMES, word_host, word_size, word_speed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from neox_train.memory.estimate import MemoryEstimate

_BAR_CELLS = 24
_COLOURS = {"fits": "green", "tight": "yellow", "does_not_fit": "red"}


def build_table(estimate: MemoryEstimate, *, title: str) -> RenderableType:
    """Parts at the peak with bars, the total against the budget, and the remedies where there are any."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("part")
    table.add_column("a rank", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for name, size in estimate.parts.items():
        share = size / estimate.total
        bar = "█" * round(_BAR_CELLS * share)
        table.add_row(PART_NAMES[name], word_size(size) if size else "-", f"{share:.0%}" if size else "", bar)
    colour = _COLOURS[estimate.verdict]
    table.add_section()
    table.add_row(
        Text("total", style="bold"),
        Text(word_size(estimate.total), style=f"bold {colour}"),
        "",
        f"{estimate.fraction:.0%} of {word_size(estimate.budget)}",
    )
    parts: list[RenderableType] = [table, Text(f"{estimate.parameters:,} parameters; {estimate.sentence}.")]
    if estimate.shown is not None:
        room = f"While the card has room, freed blocks are kept: nvidia-smi shows about {word_size(estimate.shown)}."
        parts.append(Text(room))
    if host := word_host(estimate):
        parts.append(Text(host))
    if estimate.machine is not None and (short := estimate.machine.word()):
        parts.append(Text(f"{short[0].upper()}{short[1:]}."))
    for remedy in estimate.remedies:
        keys = ", ".join(f"{key}={value}" for key, value in remedy.keys.items())
        mark = "fits" if remedy.fits else "still too much"
        parts.append(Text(f"  {word_size(remedy.total):>10}  {mark}: {remedy.change}{word_speed(remedy)}  ({keys})"))
    return Group(*parts)
