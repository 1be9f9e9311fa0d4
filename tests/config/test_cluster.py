from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neox_train.config.cluster import Cluster, expand_path, load_cluster, parse_cluster
from tests.config.files import CASES, refuse

A100 = """
name: a100
executor: slurm
device: cuda
processes_per_node: 4
cpus_per_process: 8
gpu:
  type: a100
  memory_gib: 39.4
  compute_capability: 8.0
  peak_tflops: {bfloat16: 312, fp16: 312}
partition: gpu
time_limit_minutes: 1440
environment: {NCCL_DEBUG: WARN, NCCL_IB_HCA: mlx5_0, OMP_NUM_THREADS: 8}
setup:
- module load cuda/12.4
slurm_extra: {gres-flags: enforce-binding}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.yaml"


def typed_values() -> list[tuple[str, str]]:
    lines = (CASES / "05-account.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def test_a_partition_of_gpus(file: Path) -> None:
    file.write_text(A100)
    cluster = load_cluster(file)
    assert cluster.gpu is not None and cluster.gpu.peak_tflops.bfloat16 == 312.0
    assert cluster.memory_budget_gib == 39.4
    assert cluster.environment["OMP_NUM_THREADS"] == "8"
    assert cluster.gate.refuse_above == 0.95
    assert cluster.results_path == Path("results")


def test_the_budget_of_a_cpu(file: Path) -> None:
    file.write_text("memory_gib_per_process: 2\n")
    assert load_cluster(file).memory_budget_gib == 2.0
    assert Cluster().memory_budget_gib is None


@pytest.mark.parametrize(("typed", "wanted"), typed_values())
@pytest.mark.parametrize("key", ["account", "partition", "qos"])
def test_text_reaches_slurm_as_it_was_typed(file: Path, key: str, typed: str, wanted: str) -> None:
    file.write_text(f"executor: slurm\n{key}: {typed}\nenvironment: {{A: {typed}}}\nslurm_extra: {{b: {typed}}}\n")
    for cluster in (load_cluster(file), parse_cluster(yaml.safe_load(file.read_text()), files=[file])):
        assert getattr(cluster, key) == wanted
        assert cluster.environment == {"A": wanted}
        assert cluster.slurm_extra == {"b": wanted}


def test_text_that_was_lost_is_refused_with_the_way_to_write_it() -> None:
    sentence = refuse(lambda: parse_cluster({"account": 42798}))
    assert "account is 42798, not text; write it in quotes" in sentence


def test_the_command_line_wins_over_the_file(file: Path) -> None:
    file.write_text("executor: slurm\naccount: 0123456\npartition: gpu\n")
    facts = {**yaml.safe_load(file.read_text()), "account": "other", "pipeline": "configs/pipelines/demo.yaml"}
    cluster = parse_cluster(facts, files=[file])
    assert (cluster.account, cluster.partition) == ("other", "gpu")


def test_null_stays_nothing(file: Path) -> None:
    file.write_text("account: null\npartition:\n")
    assert load_cluster(file).account is load_cluster(file).partition is None


def test_written_facts_read_back_equal(file: Path) -> None:
    file.write_text(A100)
    cluster = load_cluster(file)
    assert parse_cluster(cluster.model_dump(mode="json")) == cluster


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\nprocesses_per_node: two\n", "line 2: processes_per_node is 'two'; a whole number is wanted"),
        ("partitoin: gpu\n", "line 1: partitoin is not a known key; did you mean partition?"),
        ("device: gpu\n", "line 1: device is 'gpu'; one of 'cpu' or 'cuda' is wanted"),
        ("device: cuda\n", "device is cuda but gpu is missing"),
        ("device: cuda\ngpu: {type: a100}\n", "line 2: gpu.memory_gib and gpu.compute_capability are missing"),
        ("gpu:\n  typ: a100\n", "line 2: gpu.typ is not a known key; did you mean type?"),
        ("gate: {refuse_above: -1}\n", "line 1: gate.refuse_above is -1; more than 0.0 is wanted"),
        ("time_limit_minutes: 0\n", "line 1: time_limit_minutes is 0; at least 1 is wanted"),
        ("setup: module load x\n", "line 1: setup is 'module load x'; a list is wanted"),
    ],
)
def test_mistakes_name_file_line_and_key(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    for action in (lambda: load_cluster(file), lambda: parse_cluster(yaml.safe_load(text), files=[file])):
        sentence = refuse(action)
        assert sentence.startswith(str(file))
        assert expected in sentence


def test_variables_in_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    assert expand_path("$SCRATCH/results") == Path("/scratch/me/results")
    monkeypatch.delenv("SCRATCH")
    assert "not set" in refuse(lambda: expand_path("$SCRATCH/results"))
