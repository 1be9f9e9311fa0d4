"""``gradient_compression: auto`` on two real processes: what it measures, chooses, keeps at a resume and says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.space import checkpoint_size_bytes
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.files import read_json
from neox_train.memory.estimate import estimate_memory
from neox_train.monitoring.metrics import read_metrics
from neox_train.training.compression.auto import read_previous
from tests.gloo import run_ranks
from tests.memory.plans import make_cluster
from tests.training.synthetic import resolve, write_run

pytestmark = pytest.mark.distributed

SLOW = 1e6
"""Bytes a second: gradients of 0.46 MB take half a second, computing a fraction of it."""
STEPS = 6
AUTO: dict[str, Any] = {
    "gradient_compression": "auto",
    "powersgd_start_step": 2,
    "local_update_steps": 3,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "lr_decay_iters": 2 * STEPS,
    "log_interval": 1,
    "eval_iters": 0,
}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two trainings of two legs: over a slow link first and a fast one then, and the other way round."""
    folder = tmp_path_factory.mktemp("auto")
    legs = []
    for name, rates in (("slow first", (SLOW, None)), ("fast first", (None, SLOW))):
        for leg, bytes_per_second in enumerate(rates):
            changes = {**AUTO, "train_iters": (leg + 1) * STEPS, "checkpoint_factor": STEPS}
            run = write_run(folder / name, dataset, world_size=2, **changes)
            legs.append(
                {
                    "name": f"{name} {leg}",
                    "run": str(run.path),
                    "config": run.config_file.read_text(),
                    "bytes_per_second": bytes_per_second,
                }
            )
    (folder / "job.json").write_text(json.dumps({"legs": legs, "probe_bytes_per_second": 20e6}))
    run_ranks("tests.training.compression.auto_worker", folder / "job.json", 2)
    log = (folder / "job.0.log").read_text()
    told: dict[str, str] = {}
    for part in log.split("leg ")[1:]:
        name, _, text = part.partition("\n")
        told[name] = next((line for line in text.splitlines() if "gradient_compression auto" in line), "")
    return {"folder": folder, "told": told, "link": read_json(folder / "link.json")}


def checkpoint(trained: dict[str, Any], name: str, step: int) -> Path:
    return trained["folder"] / name / "checkpoints" / f"step_{step:08d}"


def wire_bytes(trained: dict[str, Any], name: str, steps: range) -> float:
    """Mean of a step."""
    records = {r["step"]: r for r in read_metrics(RunFolder(trained["folder"] / name).metrics) if r["kind"] == "train"}
    return sum(one["wire_bytes"] for step in steps for one in records[step]["communication"].values()) / len(steps)


def test_the_bandwidth_is_that_of_the_link_and_takes_no_longer_than_said(trained: dict[str, Any]) -> None:
    # Between two ranks bus bandwidth is the buffer's bytes by its seconds.
    assert trained["link"]["gb_per_second"] == pytest.approx(0.02, rel=0.25)
    assert trained["link"]["seconds"] < 2.5


def test_a_slow_link_is_met_with_compression_and_a_fast_one_with_none(trained: dict[str, Any]) -> None:
    assert read_previous(checkpoint(trained, "slow first", STEPS)) in ("powersgd", "local_update")
    assert read_previous(checkpoint(trained, "fast first", STEPS)) == "none"
    after_start = range(3, STEPS + 1)
    slow, fast = (wire_bytes(trained, name, after_start) for name in ("slow first", "fast first"))
    assert slow < 0.5 * fast


def test_the_line_says_what_was_measured_and_why(trained: dict[str, Any]) -> None:
    told = trained["told"]["slow first 0"]
    for word in (" GB/s", " ms a message", "2 replicas", " MB of gradients", " s of computing a step", "less commun"):
        assert word in told


def test_what_has_not_been_sent_is_not_given_up_when_the_link_gets_faster(trained: dict[str, Any]) -> None:
    method = read_previous(checkpoint(trained, "slow first", STEPS))
    assert read_previous(checkpoint(trained, "slow first", 2 * STEPS)) == method
    assert f"{method}, kept although none is advised now" in trained["told"]["slow first 1"]


def test_a_training_without_compression_takes_it_up_when_the_link_gets_slower(trained: dict[str, Any]) -> None:
    method = read_previous(checkpoint(trained, "fast first", 2 * STEPS))
    assert method in ("powersgd", "local_update")
    assert f"{method} in place of the checkpoint's none" in trained["told"]["fast first 1"]
    losses = [r["loss"] for r in read_metrics(RunFolder(trained["folder"] / "fast first").metrics)]
    assert losses[-1] < losses[0]


def test_the_estimate_and_the_check_of_free_disk_count_the_most_that_may_be_chosen() -> None:
    def configure(method: str) -> Any:
        changes = {**AUTO, "train_iters": STEPS, "gradient_compression": method}
        return resolve(DatasetFolder("unused"), RunFolder("unused"), world_size=2, **changes)

    methods = ("none", "bf16", "powersgd", "local_update")
    cluster = make_cluster()
    totals = [estimate_memory(configure(method), cluster).total for method in methods]
    assert estimate_memory(configure("auto"), cluster).total == max(totals) > min(totals)
    sizes = [checkpoint_size_bytes(configure(method)) for method in methods]
    assert checkpoint_size_bytes(configure("auto")) == max(sizes) > min(sizes)
