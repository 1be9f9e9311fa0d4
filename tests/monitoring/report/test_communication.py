from __future__ import annotations

import pytest

from neox_train.monitoring.report.communication import list_exchanges
from neox_train.monitoring.report.inputs import RunInputs


def record(step: int, **changes: object) -> dict[str, object]:
    reduced = {
        "calls": 20,
        "wire_bytes": 4 * 10**9,
        "exposed_seconds": 1.0,
        "in_flight_seconds": 4.0,
        "dtypes": ["bfloat16"],
        **changes,
    }
    few = {"calls": 10, "wire_bytes": 80, "exposed_seconds": 0.0, "in_flight_seconds": 0.0, "dtypes": ["float64"]}
    communication = {"dp.all_reduce": reduced, "world.all_gather": few}
    return {"kind": "train", "step": step, "seconds_per_step": 0.5, "communication": communication}


def test_intervals_add_up_to_figures_of_a_step() -> None:
    run = RunInputs(name="a", dataset="d", metrics=[record(10), {"kind": "validation", "step": 10}, record(20)])
    reduced, few = list_exchanges(run)
    assert (reduced.group, reduced.kind, reduced.dtypes) == ("dp", "all_reduce", ("bfloat16",))
    assert (reduced.calls_per_step, reduced.wire_bytes_per_step) == (2.0, 4 * 10**8)
    assert reduced.exposed_fraction == pytest.approx(2.0 / (20 * 0.5))
    assert reduced.bus_gb_per_second == pytest.approx(1.0)
    assert reduced.overlap_fraction == pytest.approx(0.75)
    assert (few.bus_gb_per_second, few.overlap_fraction) == (None, None)


def test_a_run_of_one_process_has_none() -> None:
    alone = {"kind": "train", "step": 10, "seconds_per_step": 0.5}
    assert list_exchanges(RunInputs(name="a", dataset="d", metrics=[alone])) == []
