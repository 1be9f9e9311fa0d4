import json
import math
import os
from dataclasses import replace
from pathlib import Path

from neox_train.cluster.progress import MetricsTail
from neox_train.monitoring.metrics import MetricsWriter


def line(step: int, time: float = 0.0, kind: str = "train") -> str:
    record = {"kind": kind, "step": step, "loss": 1.0 / step, "seconds_per_step": 2.0, "lr": 1e-3, "time": time}
    return json.dumps(record) + "\n"


def test_new_lines_are_read_once_and_a_torn_one_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    tail = MetricsTail(file)
    assert tail.read(10) is None
    file.write_text(line(1) + line(2)[:12])
    progress = tail.read(10)
    assert progress is not None
    assert progress.step == 1
    file.write_text(line(1) + line(2))
    progress = tail.read(10)
    assert progress is not None
    assert (progress.step, progress.seconds_left) == (2, 16.0)
    assert "step 2/10" in str(progress)
    assert "5 tokens/s/process" in str(replace(progress, tokens_per_second_per_gpu=5.0))
    assert "5 tokens/s/GPU" in str(replace(progress, tokens_per_second_per_gpu=5.0, mfu=0.4))


def test_a_loss_that_is_not_finite_is_told_with_the_steps_that_were_skipped(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    MetricsWriter(file).write({"kind": "train", "step": 7, "loss": math.nan, "skipped_steps": 3})
    assert str(MetricsTail(file).read(10)).startswith("step 7/10  loss not finite  3 skipped")
    file.write_text(line(8))
    assert "skipped" not in str(MetricsTail(file).read(10))


def test_a_resumed_run_that_goes_back_is_followed_back(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(line(step) for step in range(1, 9)))
    tail = MetricsTail(file)
    tail.read(10)
    shorter = tmp_path / "new"
    shorter.write_text("".join(line(step) for step in range(1, 5)))
    os.replace(shorter, file)
    progress = tail.read(10)
    assert progress is not None
    assert progress.step == 4
    with file.open("a") as stream:
        stream.write(line(5))
    progress = tail.read(10)
    assert progress is not None
    assert progress.step == 5


def test_steps_of_earlier_attempts_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text(line(1, 10.0) + line(2, 20.0) + line(2, 25.0, "validation"))
    tail = MetricsTail(file, since=100.0)
    tail.read(10)
    assert tail.steps == (None, None)
    with file.open("a") as stream:
        stream.write(line(3, 101.0) + line(4, 102.0) + line(9, 103.0, "validation"))
    tail.read(10)
    assert tail.steps == (3, 4)
