import json
from pathlib import Path

import pytest

from neox_train.cluster.plan import plan_run, render_plan
from neox_train.config.cluster import Cluster, Gpu, PeakTflops, load_cluster
from neox_train.config.cluster_records import Rates
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.memory.plan import plan_stages
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step

CASES = Path(__file__).parent.parent / "cases"
GPU = Gpu(type="h100", memory_gib=80, compute_capability=9.0, peak_tflops=PeakTflops(bfloat16=989, fp32=67))
H100 = Cluster(name="h100", executor="slurm", device="cuda", gpu=GPU, processes_per_node=4)


def config(world_size: int) -> NeoxConfig:
    files = [CASES / "base.yml", CASES / "optimizer.yml"]
    return load_config(files, overrides={"train_iters": 1000, "lr_decay_iters": 1000}, world_size=world_size)


def test_hours_come_from_a_measured_speed_where_there_is_one(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a")
    run.path.mkdir()
    record = {"kind": "train", "step": 100, "seconds_per_step": 2.0, "time": 1.0}
    run.metrics.write_text(json.dumps(record) + "\n")
    planned = plan_run(config(8), H100, 2, run)
    assert (planned.processes, planned.seconds, planned.basis) == (8, 1800.0, "measured")
    assert planned.device_hours == 4.0


def test_hours_without_a_measurement_say_so(tmp_path: Path) -> None:
    planned = plan_run(config(8), H100, 2, RunFolder(tmp_path / "a"))
    assert planned.seconds is not None
    assert planned.seconds > 0
    assert "uncalibrated" in planned.basis
    assert plan_run(config(2), Cluster(processes_per_node=2), 1, RunFolder(tmp_path / "a")).seconds is None


def test_the_table_names_what_is_done_and_sums_the_rest(tmp_path: Path) -> None:
    done, new = RunFolder(tmp_path / "done"), RunFolder(tmp_path / "new")
    done.path.mkdir()
    done.trained.write_text("{}")
    done.memory_json.write_text(json.dumps({"verdict": "fits", "fraction": 0.41}))
    lines = render_plan([plan_run(config(8), H100, 2, run) for run in (done, new)], H100)
    assert lines[0].split()[:2] == ["run", "nodes"]
    assert lines[2].split()[0] == "done"
    assert lines[2].endswith("fits (41%)  done")
    assert lines[3].endswith("new")
    assert lines[4].startswith("GPU-hours to come: ")


def test_a_marker_that_no_longer_holds_is_not_done(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "a")
    run.path.mkdir()
    run.trained.write_text("{}")
    planned = plan_run(config(8), H100, 2, run, is_marker_true=False)
    assert planned.status == "new" and planned.seconds


def test_a_profile_s_own_rate_is_taken_and_called_what_it_is(tmp_path: Path) -> None:
    for measured, basis in ((True, "MFU 50%"), (False, "uncalibrated, MFU 50%")):
        cluster = H100.model_copy(update={"rates": Rates(mfu=0.5, measured=measured)})
        assert plan_run(config(8), cluster, 2, RunFolder(tmp_path / "a")).basis == basis


def test_hours_come_from_the_model_where_the_profile_has_what_it_needs(tmp_path: Path, repository: Path) -> None:
    cluster = load_cluster(repository / "cluster_profiles" / "h100" / "cluster.yaml")
    planned = plan_run(config(8), cluster, 2, RunFolder(tmp_path / "a"))
    assert planned.basis == "uncalibrated, predicted"
    stages = plan_stages(config(8).with_vocab_size(50_304), cluster)
    rates = read_rates(cluster, stages[0].precision)
    assert rates is not None
    step = predict_step(stages, rates)
    assert step is not None and planned.seconds == pytest.approx(planned.steps * step.total)
