"""The errors of the throughput model that docs/planning.md states are those it makes."""

from __future__ import annotations

import statistics
from pathlib import Path

from neox_train.config.cluster import load_cluster
from neox_train.memory.search.scaling import predict_scaling
from neox_train.memory.throughput.rates import read_rates
from tests.memory.published import PROFILES, ROWS, make_architecture, make_gpu_plan, write_table


def test_the_guide_s_table_is_what_the_model_predicts(repository: Path) -> None:
    guide = (repository / "docs" / "planning.md").read_text()
    assert "\n".join(write_table()) in guide


def test_rows_that_no_constant_was_fitted_to_are_within_the_stated_errors() -> None:
    errors = [abs(row.error) for row in ROWS if not row.is_fitted]
    assert len(errors) >= 20
    assert statistics.median(errors) <= 0.05
    assert sum(error <= 0.15 for error in errors) >= 0.85 * len(errors)


def test_one_gpu_s_own_rows_are_within_seven_percent() -> None:
    own = [row.error for row in ROWS if row.is_own]
    assert len(own) >= 2 and all(abs(error) <= 0.07 for error in own)


def test_the_guide_s_weak_scaling_is_what_the_model_predicts(repository: Path) -> None:
    rates = read_rates(load_cluster(PROFILES / "h100" / "cluster.yaml"), "bfloat16")
    assert rates is not None
    points = predict_scaling([make_gpu_plan(make_architecture("1.3B"), micro_batch=8)], rates)
    assert points[0][0] == 1 and points[-1][0] == 4096
    lines = "\n".join(f"| {gpus:,} | {speed:,.0f} |" for gpus, speed in points)
    assert lines in (repository / "docs" / "planning.md").read_text()
