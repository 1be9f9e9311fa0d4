"""The errors of the throughput model that docs/planning.md states are those it makes."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

from neox_train.config.cluster import load_cluster
from neox_train.memory.search.scaling import predict_scaling
from neox_train.memory.throughput.rates import read_rates
from tests.memory.published import (
    OWN_ROWS,
    PROFILES,
    ROWS,
    make_architecture,
    make_gpu_plan,
    write_own_table,
    write_table,
)


def test_the_guide_s_tables_are_what_the_model_predicts(repository: Path) -> None:
    guide = (repository / "docs" / "planning.md").read_text()
    assert "\n".join(write_table()) in guide
    assert "\n".join(write_own_table()) in guide


def test_published_rows_in_16_bits_are_within_fifteen_percent() -> None:
    errors = [abs(row.error) for row in ROWS if not row.is_fitted and not row.is_fp8]
    assert len(errors) >= 20
    assert statistics.median(errors) <= 0.05
    assert max(errors) <= 0.15


def test_published_rows_in_fp8_are_all_too_fast_and_within_eighteen_percent() -> None:
    errors = [row.error for row in ROWS if row.is_fp8]
    assert len(errors) == 5
    assert min(errors) > 0 and max(errors) <= 0.18 and statistics.median(errors) <= 0.15


def test_one_gpu_s_own_rows_are_within_nine_percent_and_in_the_median_four() -> None:
    judging = [row for row in OWN_ROWS if not row.is_fitted]
    assert len(judging) >= 15
    assert statistics.median(abs(row.error) for row in judging) <= 0.04
    # Call 10's rows of 2.7B; the same row was 11% faster in another call.
    usual = [row for row in judging if not (row.name.startswith("2-7B") and row.call == 10)]
    assert len(usual) == len(judging) - 2
    assert max(abs(row.error) for row in usual) <= 0.09


def test_the_measured_profile_s_predictions_are_calibrated() -> None:
    rates = read_rates(load_cluster(PROFILES / "h200" / "cluster.yaml"), "bfloat16")
    assert rates is not None and rates.calibrated


def test_fp8_s_gain_over_16_bits_is_the_measured_one() -> None:
    own = {(row.name, row.call): row for row in OWN_ROWS}
    narrow, wide = own["1-3B/fp8-delayed", 6], own["1-3B/bf16", 6]
    assert not narrow.is_fitted
    assert abs(narrow.predicted / wide.predicted / (narrow.measured / wide.measured) - 1) <= 0.03


def test_the_guide_s_weak_scaling_is_what_the_model_predicts(repository: Path) -> None:
    rates = read_rates(load_cluster(PROFILES / "h100" / "cluster.yaml"), "bfloat16")
    assert rates is not None
    plan = make_gpu_plan(make_architecture("1.3B"), micro_batch=8)
    plan = replace(plan, compiled_blocks=True, flat_masters=True)
    points = predict_scaling([plan], rates)
    assert points[0][0] == 1 and points[-1][0] == 4096
    lines = "\n".join(f"| {gpus:,} | {speed:,.0f} |" for gpus, speed in points)
    assert lines in (repository / "docs" / "planning.md").read_text()
