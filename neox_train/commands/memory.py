"""``neox-train memory``: estimates against what runs measured."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neox_train.config.cluster import Cluster
    from neox_train.config.layout import RunFolder
    from neox_train.memory.calibration import MemoryRun
    from neox_train.memory.throughput.calibration import TimedRun

_GIB = 1 << 30
_MIB = 1 << 20

_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Compare predictions with runs.",
)


def register(app: typer.Typer) -> None:
    """Add ``memory calibrate``."""
    app.add_typer(_app, name="memory")


@_app.callback()
def _group() -> None:
    """Compare predictions with runs."""


@_app.command("calibrate")
def calibrate(
    results: Annotated[Path, typer.Option(help="Results folder with trained runs of this profile's GPUs.")],
    profile: Annotated[str, typer.Option(help="Profile: its name, its folder, or its cluster.yaml.")],
    write: Annotated[bool, typer.Option(help="Write the memory fit into the results folder.")] = True,
) -> None:
    """Refit the predictions of memory and speed to this site's runs, and print each run against both.

    The memory fit goes into memory_calibration.json of the results folder, which later estimates read; the rate of
    speed is printed, to be pasted into the profile.
    """
    from neox_train.config.layout import RunFolder
    from neox_train.config.profiles import load_profile

    cluster = load_profile(profile)
    folders = [RunFolder(path) for path in sorted((results / "runs").glob("*")) if path.is_dir()]
    _calibrate_memory(folders, cluster, results, write=write)
    _calibrate_speed(folders, cluster, results)


def _calibrate_memory(folders: list[RunFolder], cluster: Cluster, results: Path, *, write: bool) -> None:
    from neox_train.memory.calibration import SLOPE_LIMIT, fit_memory, judge_left_out, write_calibration

    runs = [run for folder in folders if (run := _read_memory(folder, cluster))]
    if not runs:
        return
    fitted, left_out = fit_memory(runs, cluster.name), judge_left_out(runs, cluster.name)
    for run in runs:
        errors = f"{run.estimated / run.measured - 1:+.1%}, by a fit to the others {left_out[run.name]:+.1%}"
        typer.echo(
            f"{run.name}: peak {run.measured / _GIB:.2f} GiB, estimated {run.estimated / _GIB:.2f} GiB ({errors})"
        )
    offset = f"{fitted.offset_bytes / _MIB:+,.0f} MiB, activations x {fitted.activation_factor:.3f}"
    typer.echo(f"memory: {offset}, from {fitted.runs} run{'s' * (fitted.runs > 1)}")
    if fitted.is_at_limit:
        typer.echo(
            f"note: the factor of the activations is at its limit of {SLOPE_LIMIT:.0%}: what these runs measured does "
            "not follow the model; look at the runs that are worst above before you trust the fit"
        )
    if write:
        typer.echo(f"written: {write_calibration(results, fitted, runs)}")


def _read_memory(folder: RunFolder, cluster: Cluster) -> MemoryRun | None:
    """A run's estimate by today's model, without any calibration, and its measured peak; None without both."""
    from neox_train.config.load import load_config
    from neox_train.memory.calibration import MemoryRun
    from neox_train.memory.estimate import estimate_memory
    from neox_train.monitoring.metrics import last_record

    measured = (last_record(folder.metrics, "train") or {}).get("peak_memory_gib")
    if not measured or not folder.config_file.is_file():
        return None
    estimate = estimate_memory(load_config([folder.config_file]), cluster)
    return MemoryRun(folder.name, estimate.measurable, estimate.parts["activations"], round(measured * _GIB))


def _calibrate_speed(folders: list[RunFolder], cluster: Cluster, results: Path) -> None:
    from neox_train.errors import ConfigError
    from neox_train.memory.throughput.calibration import fit_matrix_fraction, predict_ratio
    from neox_train.memory.throughput.rates import read_rates

    runs = [run for folder in folders if (run := _read_run(folder, cluster))]
    if not runs:
        raise ConfigError(f"{results / 'runs'} has no run with measured steps; train one, then calibrate")
    if cluster.device != "cuda":
        return
    rates = read_rates(cluster, runs[0].plans[0].precision)
    fraction = fit_matrix_fraction(runs, rates) if rates else None
    if rates is None or fraction is None:
        raise ConfigError(
            f"the profile '{cluster.name}' predicts no speed; set gpu.peak_tflops, gpu.memory_gb_per_second and "
            "network.gb_per_second"
        )
    fitted = rates.with_matrix_fraction(fraction)
    for run in runs:
        before, after = predict_ratio(run, rates), predict_ratio(run, fitted)
        if before is not None and after is not None:
            typer.echo(f"{run.name}: {run.seconds:.3f} s a step, predicted {before - 1:+.1%}, fitted {after - 1:+.1%}")
    typer.echo(f"rates:\n  matrix_fraction: {fraction}\n  source: {len(runs)} runs of {results}\n  measured: true")


def _read_run(folder: RunFolder, cluster: Cluster) -> TimedRun | None:
    """A run's plans and the median of its steps; None where it has no configuration or no steps."""
    from neox_train.config.load import load_config
    from neox_train.memory.plan import plan_stages
    from neox_train.memory.throughput.calibration import TimedRun
    from neox_train.monitoring.metrics import read_metrics

    records = [record for record in read_metrics(folder.metrics) if record["kind"] == "train"]
    seconds = [record["seconds_per_step"] for record in records if record.get("seconds_per_step")]
    if not seconds or not folder.config_file.is_file():
        return None
    # The first interval compiles and fills caches.
    steady = seconds[1:] or seconds
    plans = plan_stages(load_config([folder.config_file]), cluster)
    return TimedRun(folder.name, tuple(plans), statistics.median(steady))
