"""``neox-train memory calibrate`` on run folders whose steps took what known rates give."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from neox_train.commands import memory
from neox_train.config.cluster import load_cluster
from neox_train.config.layout import RunFolder
from neox_train.config.run import resolve_files
from neox_train.config.run_file import write_run_config
from neox_train.errors import ConfigError
from neox_train.memory.calibration import FILE_NAME, read_calibration
from neox_train.memory.estimate import estimate_memory
from neox_train.memory.plan import plan_stages
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step

ROOT = Path(__file__).parents[2]
H100 = ROOT / "cluster_profiles" / "h100" / "cluster.yaml"


def _call(results: Path, *more: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    memory.register(app)
    return CliRunner().invoke(app, ["memory", "calibrate", "--results", str(results), "--profile", str(H100), *more])


def _write_run(results: Path, size: str, fraction: float) -> None:
    """A run whose steps took what the model gives at ``fraction`` of the peak; its first interval was slower."""
    cluster = load_cluster(H100)
    config = resolve_files([ROOT / "configs" / f"{size}.yml"], cluster, nodes=1).with_vocab_size(50_257)
    folder = RunFolder.of(results, size)
    write_run_config(folder, config)
    plans = plan_stages(config, cluster)
    rates = read_rates(cluster, plans[0].precision)
    assert rates is not None
    step = predict_step(plans, replace(rates, matrix_flops=fraction * rates.peak_flops))
    assert step is not None
    estimate = estimate_memory(config, cluster)
    peak = (estimate.measurable + 0.05 * estimate.parts["activations"]) / 2**30 + 0.25
    records = [
        {"kind": "train", "step": 10 * n, "seconds_per_step": step.total * factor, "peak_memory_gib": peak, "time": 0}
        for n, factor in ((1, 9.0), (2, 1.0), (3, 1.0))
    ]
    folder.metrics.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("fraction", [0.35, 0.7])
def test_the_fit_finds_the_rate_that_the_runs_had(tmp_path: Path, fraction: float) -> None:
    for size in ("125M", "1-3B", "2-7B"):
        _write_run(tmp_path, size, fraction)
    result = _call(tmp_path)
    assert result.exit_code == 0, result.exception
    found = next(line for line in result.stdout.splitlines() if "matrix_fraction" in line)
    assert float(found.split(":")[1]) == pytest.approx(fraction, abs=1e-3)
    assert "fitted +0.0%" in result.stdout.replace("-0.0%", "+0.0%")
    assert "memory: +256 MiB, activations x 1.050, from 3 runs" in result.stdout


def test_later_estimates_count_with_the_fit(tmp_path: Path) -> None:
    for size in ("125M", "1-3B", "2-7B"):
        _write_run(tmp_path, size, 0.5)
    assert _call(tmp_path).exit_code == 0
    cluster = load_cluster(H100)
    config = resolve_files([ROOT / "configs" / "350M.yml"], cluster, nodes=1).with_vocab_size(50_257)
    plain = estimate_memory(config, cluster)
    fitted = estimate_memory(config, cluster, read_calibration(tmp_path, cluster.name))
    added = fitted.total - plain.total
    assert added == pytest.approx(0.05 * plain.parts["activations"] + 2**28, rel=0.01)
    assert fitted.calibrated and not plain.calibrated
    assert read_calibration(tmp_path, "another profile") is None


def test_nothing_is_written_on_request(tmp_path: Path) -> None:
    _write_run(tmp_path, "125M", 0.5)
    assert _call(tmp_path, "--no-write").exit_code == 0
    assert not (tmp_path / FILE_NAME).exists()


def test_without_runs_it_says_what_to_do(tmp_path: Path) -> None:
    result = _call(tmp_path)
    assert isinstance(result.exception, ConfigError)
    assert "train one, then calibrate" in str(result.exception)
