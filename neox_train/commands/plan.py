"""``neox-train plan``: the fastest layout that fits, what it costs, and why the others lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster
    from neox_train.config.schema import NeoxConfig
    from neox_train.memory.search.search import Choice, Found
    from neox_train.memory.search.table import Row

_DEFAULT_VOCABULARY = 50_257
_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add ``plan``."""
    app.command("plan")(plan)


def plan(
    config: list[Path] = typer.Argument(..., help="GPT-NeoX YAML files; a key has one value in all of them."),
    profile: str = typer.Option(..., help="Profile of the cluster: its name, its folder, or its cluster.yaml."),
    nodes: str = typer.Option("1", help="Nodes to consider: 4, or 1-16 (the ends and the powers of two between)."),
    tokens: str | None = typer.Option(None, help="Training tokens, as 300B; default those of train_iters."),
    deadline: str | None = typer.Option(None, help="Time for the training, as 7d: the cheapest in time wins."),
    vocab_size: int = typer.Option(_DEFAULT_VOCABULARY, min=1, help="Tokens of the vocabulary."),
    global_batch: int | None = typer.Option(None, min=1, help="Sequences of a step; default the configuration's own."),
    scaling: Path | None = typer.Option(None, help="Draw the best layout's weak scaling to 4,096 GPUs as a PNG."),
    allow: str = typer.Option(
        "optimizer",
        help="What of the numerics may change: optimizer (8-bit states), precision, both with a comma, none.",
    ),
    results: Path = typer.Option(Path("results"), help="Results folder whose memory calibration counts."),
    write: Path | None = typer.Option(None, help="Write the configuration with the chosen keys laid over it."),
) -> None:
    """Search layouts of a run on a cluster, from predicted memory and speed; nothing is started.

    The global batch is kept: the configuration's own on the fewest of these nodes that it can be laid out on.
    """
    from neox_train.config.profiles import load_profile
    from neox_train.memory.calibration import read_calibration
    from neox_train.memory.search.budget import count_steps, read_nodes, read_seconds, read_tokens
    from neox_train.memory.search.precisions import read_allowed
    from neox_train.memory.search.search import search_layouts

    cluster, allowed = load_profile(profile), read_allowed(allow)
    counts = read_nodes(nodes)
    base = _resolve_base(config, cluster, counts, global_batch)
    base = base.with_vocab_size(base.vocab_size or vocab_size)
    wanted = read_tokens(tokens) if tokens else None
    limit = read_seconds(deadline) if deadline else None
    steps = count_steps(wanted, base.train_batch_size, base.seq_length) if wanted else _require_steps(base)
    found = search_layouts(config, cluster, counts, base, read_calibration(results, cluster.name), allowed)
    rows = _price_all(found, base, cluster, steps)
    chosen = _order(rows, limit)
    _show(chosen, rows, found, base, cluster, steps, limit, allowed)
    if scaling is not None:
        _draw(scaling, chosen[0][0], cluster)
        typer.echo(f"written: {scaling}")
    if write is not None:
        _write(
            write, config, _list_keys(chosen[0][0], steps if wanted else None, base), nodes=chosen[0][0].layout.nodes
        )
        typer.echo(f"written: {write}")


def _resolve_base(files: list[Path], cluster: Cluster, counts: list[int], global_batch: int | None) -> NeoxConfig:
    """The configuration on the fewest nodes that its own layout allows; with ``global_batch`` without its layout."""
    from neox_train.config.run import resolve_files
    from neox_train.errors import ConfigError

    if global_batch is not None:
        ranks = counts[0] * cluster.processes_per_node
        if global_batch % ranks:
            raise ConfigError(f"--global-batch {global_batch} is not a multiple of {ranks} GPUs; choose a multiple")
        batch = {"train_batch_size": global_batch, "train_micro_batch_size_per_gpu": 1}
        batch["gradient_accumulation_steps"] = global_batch // ranks
        layout = {"model_parallel_size": 1, "pipe_parallel_size": 1}
        return resolve_files(files, cluster, nodes=counts[0], overrides={**batch, **layout})
    for count in counts[:-1]:
        try:
            return resolve_files(files, cluster, nodes=count)
        except ConfigError:
            continue
    return resolve_files(files, cluster, nodes=counts[-1])


def _require_steps(base: NeoxConfig) -> int:
    from neox_train.errors import ConfigError

    if base.train_iters is None:
        raise ConfigError("train_iters is not set; set it, or give --tokens, such as --tokens 300B")
    return base.train_iters


def _price_all(found: Found, base: NeoxConfig, cluster: Cluster, steps: int) -> list[Row]:
    from neox_train.config.architecture import Architecture
    from neox_train.errors import DoesNotFitError
    from neox_train.memory.search.budget import price
    from neox_train.memory.search.table import word_refusals
    from neox_train.monitoring.throughput import flops_per_token

    if not found.choices:
        raise DoesNotFitError(
            f"no layout fits {cluster.name}: {'; '.join(word.strip() for word in word_refusals(found.refusals))}; "
            "allow more nodes (--nodes 1-16), or take a smaller model"
        )
    operations = flops_per_token(Architecture.from_config(base))
    return [
        (
            choice,
            price(choice.step.total, choice.step.gpus, steps, cluster),
            choice.step.tokens_per_second_per_gpu * operations / (_read_peak(choice, cluster) * 1e12),
        )
        for choice in found.choices
    ]


def _read_peak(choice: Choice, cluster: Cluster) -> float:
    """TFLOP/s that MFU is a share of: the 16-bit peak under FP8 too. A speed was predicted, so it is there."""
    assert cluster.gpu is not None
    return float(getattr(cluster.gpu.peak_tflops, choice.layout.plan.precision))


def _order(rows: Sequence[Row], deadline: int | None) -> list[Row]:
    """Fastest first; with a deadline those that meet it, the fewest GPU-hours first."""
    in_time = [row for row in rows if deadline is not None and row[1].seconds <= deadline]
    if in_time:
        return sorted(in_time, key=lambda row: row[1].gpu_hours)
    return sorted(rows, key=lambda row: row[1].seconds)


def _show(
    chosen: list[Row],
    rows: list[Row],
    found: Found,
    base: NeoxConfig,
    cluster: Cluster,
    steps: int,
    deadline: int | None,
    allowed: frozenset[str],
) -> None:
    from rich.console import Console

    from neox_train.memory.search.notes import list_notes
    from neox_train.memory.search.table import build_plan_table, word_refusals

    console = Console(width=172, soft_wrap=False, markup=False)
    console.print(build_plan_table(chosen[:_SHOWN], title=f"best layouts on {cluster.name}"))
    counts = sorted({row[0].layout.nodes for row in rows})
    if len(counts) > 1:
        best = [min((r for r in rows if r[0].layout.nodes == n), key=lambda r: r[1].seconds) for n in counts]
        console.print(build_plan_table(best, title="best of each number of nodes"))
    notes = list_notes(chosen[0], base, cluster, steps=steps, deadline=deadline, allowed=allowed)
    for line in (*notes, "others lost:", *word_refusals(found.refusals)):
        typer.echo(line)


def _draw(path: Path, choice: Choice, cluster: Cluster) -> None:
    from neox_train.memory.search.scaling import draw_scaling, predict_scaling
    from neox_train.memory.throughput.rates import read_rates

    plans, layout = choice.layout.plans, choice.layout
    rates = read_rates(cluster, layout.plan.precision)
    assert rates is not None
    points = predict_scaling(plans, rates)
    words = f"tp {layout.tensor_parallel}, pp {layout.stages}, ZeRO {layout.zero_stage}, micro-batch "
    title = f"weak scaling on {cluster.name}: {words}{layout.plan.micro_batch}"
    draw_scaling(points, path, title=title, calibrated=rates.calibrated)


def _list_keys(choice: Choice, steps: int | None, base: NeoxConfig) -> dict[str, Any]:
    keys = choice.layout.keys
    if steps is None:
        return keys
    keys["train_iters"] = steps
    if base.lr_decay_iters == base.train_iters and base.lr_decay_iters is not None:
        keys["lr_decay_iters"] = steps
    return keys


def _write(path: Path, files: Sequence[Path], keys: dict[str, Any], *, nodes: int) -> None:
    """Write the merged files with ``keys`` over them: stacked, a key set twice would be refused."""
    import yaml

    from neox_train.config.merge import merge_documents, set_overrides
    from neox_train.config.reader import read_yaml
    from neox_train.files import write_text

    document = set_overrides(merge_documents([read_yaml(file, fold_hyphens=True) for file in files]), keys)
    chosen = yaml.safe_dump(keys, sort_keys=False)
    head = f"# Chosen by `neox-train plan` for {nodes} nodes, from {' + '.join(file.name for file in files)}.\n"
    head += "# As `overrides:` of a run of a pipeline file the same choice is:\n"
    head += "".join(f"#   {line}\n" for line in chosen.splitlines())
    write_text(path, head + yaml.safe_dump(dict(document.values), sort_keys=False))
