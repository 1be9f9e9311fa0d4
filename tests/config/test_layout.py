from __future__ import annotations

from pathlib import Path

from neox_train.config.layout import DatasetFolder, RunFolder, cluster_file


def test_names_that_users_and_stages_rely_on() -> None:
    run = RunFolder.of("results", "serial")
    assert run.name == "serial"
    base = Path("results/runs/serial")
    assert [run.config_file, run.trained, run.checkpoints, run.metrics, run.hf, run.evaluation] == [
        base / name for name in ("config.yml", "trained.json", "checkpoints", "metrics.jsonl", "hf", "evaluation.json")
    ]
    dataset = DatasetFolder.of(Path("results"), "stdlib")
    assert dataset.manifest == Path("results/datasets/stdlib/manifest.json")
    assert dataset.tokenized == Path("results/datasets/stdlib/tokenized.json")
    assert dataset.shard("train", 3).name == "tokens-train-00003.h5"


def test_each_profile_has_a_cluster_file_of_its_own() -> None:
    assert cluster_file(Path("results"), "a100-80") == Path("results/cluster-a100-80.json")
    assert cluster_file(Path("results"), "site/a b") == Path("results/cluster-site_a_b.json")


def test_every_file_of_a_run_has_its_own_name() -> None:
    names = [name for name in dir(RunFolder) if isinstance(getattr(RunFolder, name), property) and name != "name"]
    paths = [getattr(RunFolder("x"), name) for name in names]  # type: ignore[arg-type]
    assert len(set(paths)) == len(paths)
