"""The refit of the memory model: medians, what is left out, and the file between sites and estimates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neox_train.errors import StorageError
from neox_train.memory.calibration import (
    FILE_NAME,
    MemoryRun,
    fit_memory,
    judge_left_out,
    read_calibration,
    write_calibration,
)
from neox_train.memory.estimate import estimate_memory
from tests.memory.plans import make_cluster, make_config

MIB = 1 << 20


def _runs(*missing: float) -> list[MemoryRun]:
    """Runs of 1, 2, 3 ... GiB of activations that measured 100 MiB and a share of the activations more."""
    sizes = [(number + 1) * 1024 * MIB for number in range(len(missing))]
    return [
        MemoryRun(f"run-{index}", 4 * size, size, round(4 * size + 100 * MIB + share * size))
        for index, (size, share) in enumerate(zip(sizes, missing, strict=True))
    ]


def test_offset_and_factor_are_found() -> None:
    fitted = fit_memory(_runs(0.08, 0.08, 0.08), "mine")
    assert fitted.offset_bytes == pytest.approx(100 * MIB, abs=1)
    assert fitted.activation_factor == pytest.approx(1.08)


def test_one_odd_run_among_five_moves_little() -> None:
    fitted = fit_memory(_runs(0.05, 0.05, 0.9, 0.05, 0.05), "mine")
    assert fitted.activation_factor == pytest.approx(1.05, abs=0.01)


def test_one_run_gives_an_offset_alone_and_a_wild_slope_is_cut() -> None:
    one = fit_memory(_runs(0.08), "mine")
    assert one.activation_factor == 1 and one.offset_bytes == pytest.approx(100 * MIB + 0.08 * 1024 * MIB, abs=1)
    assert not one.is_at_limit
    for wild in (fit_memory(_runs(0.9, 0.9, 0.9), "mine"), fit_memory(_runs(-0.9, -0.9, -0.9), "mine")):
        assert abs(wild.activation_factor - 1) == pytest.approx(0.2) and wild.is_at_limit


def test_no_run_is_judged_by_its_own_fit() -> None:
    runs = _runs(0.05, 0.05, 0.05, 0.3)
    errors = judge_left_out(runs, "mine")
    fitted = fit_memory(runs[:3], "mine")
    assert errors["run-3"] == pytest.approx(runs[3].predict(fitted) / runs[3].measured - 1)
    assert judge_left_out(runs[:1], "mine")["run-0"] == pytest.approx(runs[0].estimated / runs[0].measured - 1)


def test_an_estimate_on_cpus_takes_the_offset_too(tmp_path: Path) -> None:
    cluster = make_cluster(name="mine")
    write_calibration(tmp_path, fit_memory(_runs(0.0), "mine"), _runs(0.0))
    plain = estimate_memory(make_config(), cluster)
    fitted = estimate_memory(make_config(), cluster, read_calibration(tmp_path, "mine"))
    assert fitted.parts["process"] - plain.parts["process"] == 100 * MIB
    assert fitted.to_dict()["calibration"]["runs"] == 1
    assert fitted.measurable == fitted.total


@pytest.mark.parametrize("change", [{"activation_factor": 3}, {"runs": None}, {"offset_bytes": "many"}])
def test_a_file_that_is_none_is_told(tmp_path: Path, change: dict[str, object]) -> None:
    runs = _runs(0.0)
    path = write_calibration(tmp_path, fit_memory(runs, "mine"), runs)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StorageError, match=rf"{FILE_NAME} is no calibration .*remove it"):
        read_calibration(tmp_path, "mine")


def test_without_a_file_nothing_is_changed(tmp_path: Path) -> None:
    assert read_calibration(tmp_path, "mine") is None
