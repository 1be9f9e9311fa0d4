from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.cluster import Cluster, Gpu, PeakTflops
from neox_train.config.load import load_config, write_config
from neox_train.config.pipeline import Pipeline, load_pipeline
from neox_train.config.run import resolve_files, resolve_run
from tests.config.files import TINY, refuse

LOCAL = Cluster(processes_per_node=2)
H100 = Cluster(
    name="h100",
    device="cuda",
    processes_per_node=4,
    gpu=Gpu(type="h100", memory_gib=79.1, compute_capability=9.0, peak_tflops=PeakTflops(bfloat16=989.0)),
)


def write_pipeline(folder: Path, extra: str = "", more_files: str = "") -> Pipeline:
    (folder / "pipeline.yaml").write_text(
        f"""datasets:
  d:
    source: {{kind: python_stdlib}}
    tokenizer: {{train: bpe, vocab_size: 300}}
runs:
  r:
    config: [{TINY[0]}, {TINY[1]}{more_files}]
    dataset: d
    nodes: 2
{extra}"""
    )
    return load_pipeline(folder / "pipeline.yaml")


def test_the_run_owns_its_places_and_processes(tmp_path: Path) -> None:
    config = resolve_run(write_pipeline(tmp_path), "r", LOCAL, Path("out"), vocab_size=300)
    assert config.data_path == "out/datasets/d"
    assert config.vocab_file == "out/datasets/d/tokenizer.json"
    assert config.tokenizer_type == "HFTokenizer"
    assert config.save == config.load == "out/runs/r/checkpoints"
    assert config.log_dir == "out/runs/r/logs"
    assert config.world_size == 4
    assert config.train_batch_size == 16
    assert config.padded_vocab_size == 384
    assert config.distributed_backend == "gloo"


def test_what_is_replaced_is_said_once_with_its_place(tmp_path: Path) -> None:
    paths = tmp_path / "paths.yml"
    paths.write_text("data_path: data/enwik8\nsave: checkpoints\nload: checkpoints\nglobal_num_gpus: 8\n")
    pipeline = write_pipeline(tmp_path, more_files=f", {paths}")
    notices = resolve_run(pipeline, "r", LOCAL, Path("out")).notices
    assert [text for text in notices if "data_path" in text] == [
        f"{paths}, line 1: data_path belongs to the run here: 'data/enwik8' -> 'out/datasets/d'"
    ]
    assert any("line 4: global_num_gpus comes from the cluster here: 8 -> 4" in text for text in notices)
    assert not any("vocab_file" in text for text in notices)


def test_a_run_that_begins_with_another_s_weights_keeps_where_they_are(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, "    overrides: {finetune: true, load: other/checkpoints}\n")
    config = resolve_run(pipeline, "r", LOCAL, Path("out"))
    assert (config.load, config.save) == ("other/checkpoints", "out/runs/r/checkpoints")
    assert not any("load belongs" in text or "finetune has no effect" in text for text in config.notices)


def test_the_backend_follows_the_device(tmp_path: Path) -> None:
    config = resolve_run(write_pipeline(tmp_path), "r", H100, Path("out"))
    assert config.distributed_backend == "nccl"
    assert any("distributed_backend comes from the cluster here: 'gloo' -> 'nccl'" in text for text in config.notices)


def test_the_peak_of_the_gpu_by_number_format(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, "    overrides: {precision: bfloat16}\n")
    assert resolve_run(pipeline, "r", H100, Path("out")).peak_theoretical_tflops == 989.0
    pipeline = write_pipeline(tmp_path, "    overrides: {precision: bfloat16, peak_theoretical_tflops: 500}\n")
    assert resolve_run(pipeline, "r", H100, Path("out")).peak_theoretical_tflops == 500.0
    assert resolve_run(write_pipeline(tmp_path), "r", LOCAL, Path("out")).peak_theoretical_tflops is None


def test_overrides_win_and_their_mistakes_name_the_pipeline_file(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, "    overrides:\n      seed: 7\n      optimizer.params.lr: 6e-4\n")
    config = resolve_run(pipeline, "r", LOCAL, Path("out"))
    assert (config.seed, config.lr) == (7, 6e-4)
    pipeline = write_pipeline(tmp_path, "    overrides:\n      seed: 7\n      optimizer.params.lr: fast\n")
    sentence = refuse(lambda: resolve_run(pipeline, "r", LOCAL, Path("out")))
    assert sentence == f"{tmp_path / 'pipeline.yaml'}, line 12: optimizer.params.lr is 'fast'; a number is wanted"


def test_a_configuration_that_is_not_there_names_the_pipeline_file_and_line(tmp_path: Path) -> None:
    pipeline = write_pipeline(tmp_path, more_files=", gone.yml")
    sentence = refuse(lambda: resolve_run(pipeline, "r", LOCAL, Path("out")))
    place = f"{tmp_path / 'pipeline.yaml'}, line 7"
    assert sentence == f"{place}: runs.r.config names gone.yml, which is not there; correct the path"


def test_the_resolved_configuration_repeats_the_run(tmp_path: Path) -> None:
    config = resolve_run(write_pipeline(tmp_path), "r", H100, tmp_path, vocab_size=300)
    write_config(config, tmp_path / "config.yml")
    assert load_config([tmp_path / "config.yml"]) == config


@pytest.mark.parametrize("written", ["precision: fp16", "fp16: {enabled: true}"])
def test_fp16_on_cpus_is_refused_with_the_remedy(tmp_path: Path, written: str) -> None:
    pipeline = write_pipeline(tmp_path, f"    overrides: {{{written}}}\n")
    sentence = refuse(lambda: resolve_run(pipeline, "r", LOCAL, Path("out")))
    assert "precision: bfloat16" in sentence
    assert "pipeline.yaml, line 10" in sentence


def test_files_alone_keep_their_paths(tmp_path: Path) -> None:
    (tmp_path / "paths.yml").write_text("data_path: data\nsave: here\nload: there\n")
    config = resolve_files([*TINY, tmp_path / "paths.yml"], H100, nodes=2, overrides={"seed": 5})
    assert (config.data_path, config.save, config.load, config.seed) == ("data", "here", "there", 5)
    assert (config.world_size, config.distributed_backend) == (8, "nccl")
    assert any("distributed_backend comes from the cluster" in text for text in config.notices)
    assert "precision: bfloat16" in refuse(lambda: resolve_files(TINY, LOCAL, overrides={"precision": "fp16"}))
    assert "name at least one YAML file" in refuse(lambda: resolve_files([], LOCAL))
