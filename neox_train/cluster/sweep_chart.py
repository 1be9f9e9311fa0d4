"""A sweep of collectives as lines of text and as a picture, against the profile's floor and the network's rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neox_train.cluster.check import Check, fail, passed, skip
from neox_train.config.cluster import Cluster

_BAR = 40
_UNITS = ("B", "KiB", "MiB", "GiB")

Row = dict[str, Any]


def check_sweep(rows: Sequence[Row], cluster: Cluster) -> Check:
    """The best all-reduce of the sweep against the profile's floor."""
    name, floor = "sweep of collectives", cluster.preflight.all_reduce_gb_per_second
    rates = {row["bytes"]: row["gb_per_second"] for row in rows if row["kind"] == "all_reduce"}
    if not rates:
        return skip(name, "one rank, or no time")
    size, best = max(rates.items(), key=lambda item: item[1])
    found = f"all_reduce reaches {best:.3g} GB/s at {name_size(size)}"
    if floor is not None and best < floor:
        return fail(
            name, f"{found}, floor {floor:g}", "a slow link or the wrong network: compare network: and the nodes"
        )
    return passed(name, found + (f", floor {floor:g}" if floor is not None else ", no floor set"))


def draw_text(rows: Sequence[Row], cluster: Cluster) -> list[str]:
    """One line a kind and size: seconds, bus bandwidth and a bar on a logarithmic scale, the floor marked by ``|``."""
    if not rows:
        return []
    floor = cluster.preflight.all_reduce_gb_per_second
    rates = [row["gb_per_second"] for row in rows] + ([floor] if floor else [])
    low, high = math.log10(min(rates)), math.log10(max(rates))
    lines = []
    for row in rows:
        filled = _place(row["gb_per_second"], low, high)
        bar = list("#" * filled + " " * (_BAR - filled))
        if floor and row["kind"] == "all_reduce":
            bar[_place(floor, low, high) - 1] = "|"
        lines.append(
            f"{row['kind']:<14} {name_size(row['bytes']):>8} {row['seconds'] * 1e3:>11.3f} ms "
            f"{row['gb_per_second']:>9.3g} GB/s {''.join(bar).rstrip()}"
        )
    return lines


def _place(rate: float, low: float, high: float) -> int:
    return 1 + round((_BAR - 1) * (math.log10(rate) - low) / max(high - low, 1e-9))


def draw_picture(rows: Sequence[Row], cluster: Cluster, file: Path) -> None:
    """Bus bandwidth by size, one line a kind; the floor and the profile's rate of the network as dashes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        axes.loglog([row["bytes"] for row in own], [row["gb_per_second"] for row in own], marker="o", label=kind)
    lines = {
        "floor of all_reduce": cluster.preflight.all_reduce_gb_per_second,
        "network of a node": cluster.network.gb_per_second,
    }
    for (name, rate), style in zip(lines.items(), ("--", ":"), strict=True):
        if rate:
            axes.axhline(rate, color="grey", linestyle=style, label=f"{name}, {rate:g} GB/s")
    ranks = rows[0]["ranks"] if rows else 0
    axes.set(xlabel="bytes", ylabel="bus bandwidth, GB/s", title=f"{cluster.name}, {ranks} ranks")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def name_size(size_bytes: int) -> str:
    """``256 KiB``."""
    exponent = min(int(math.log2(size_bytes)) // 10, len(_UNITS) - 1)
    return f"{size_bytes / 1024**exponent:g} {_UNITS[exponent]}"
