import json
from pathlib import Path

import pytest

from neox_train.errors import StorageError
from neox_train.monitoring.metrics import MetricsWriter, last_record, read_metrics, trim_metrics


def write_steps(path: Path, *steps: int) -> None:
    writer = MetricsWriter(path)
    for step in steps:
        writer.write({"kind": "train", "step": step, "loss": 1.0 / 3.0 + step})


def test_a_loss_reads_back_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    loss = 0.1 + 0.2
    MetricsWriter(path).write({"kind": "train", "step": 1, "loss": loss})
    (record,) = read_metrics(path)
    assert record["loss"] == loss
    assert record["time"] > 0


def test_numbers_that_are_not_finite_become_null_so_that_every_line_is_json(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    MetricsWriter(path).write({"kind": "train", "step": 1, "loss": float("nan"), "grad_norm": float("inf")})
    record = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert record["loss"] is None and record["grad_norm"] is None


def test_a_resumed_run_loses_and_doubles_no_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 2, 3, 4, 5)
    assert trim_metrics(path, 3) == 2
    write_steps(path, 4, 5)
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3, 4, 5]


def test_a_torn_last_line_is_cut_and_the_next_record_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 3])
    assert trim_metrics(path, 2) == 1
    assert path.read_bytes() == whole
    write_steps(path, 3)
    assert [record["step"] for record in read_metrics(path)] == [1, 2, 3]


def test_a_line_that_is_no_text_is_cut_like_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b"\xff\xfe\0\n")
    assert [record["step"] for record in read_metrics(path)] == [1, 2]
    assert trim_metrics(path, 2) == 1
    assert path.read_bytes() == whole


def test_trimming_nothing_does_not_touch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 2)
    before = path.stat().st_ino
    assert trim_metrics(path, 2) == 0
    assert path.stat().st_ino == before
    assert trim_metrics(tmp_path / "none.jsonl", 0) == 0


def test_the_newest_record_of_a_kind(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write_steps(path, 1, 2)
    MetricsWriter(path).write({"kind": "validation", "step": 2, "loss": 3.5})
    write_steps(path, 3)
    found = last_record(path, "validation")
    assert found is not None and found["loss"] == 3.5
    assert last_record(path, "test") is None


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        MetricsWriter(tmp_path / "file" / "metrics.jsonl")
