"""Exports of runs that were trained on something else than one dataset folder, trained by the real trainer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.checkpoint.convert import ConvertOptions, convert_run
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.data.mmap_files import export_mmap
from neox_train.data.store import TokenStore
from neox_train.errors import CheckpointError, ConfigError
from tests.checkpoint.trained_run import CASES, RENDEZVOUS, make_dataset

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(300)]


def convert(run: RunFolder) -> dict:
    return convert_run(run, ConvertOptions(), report=lambda _: None)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return make_dataset(tmp_path_factory.mktemp("datasets") / "text")


def train(folder: Path, *overrides: str) -> RunFolder:
    """The train command for one step."""
    settings = [f"train_iters=1 lr_decay_iters=1 checkpoint_factor=1 save={folder / 'checkpoints'}".split(), overrides]
    options = [part for group in settings for text in group for part in ("--override", text)]
    files = [str(CASES / name) for name in ("base.yml", "optimizer.yml")]
    environment = {name: value for name, value in os.environ.items() if name not in RENDEZVOUS}
    done = subprocess.run(
        [sys.executable, "-m", "neox_train.cli", "train", *files, "--run-dir", str(folder), *options],
        capture_output=True,
        text=True,
        timeout=200,
        env=environment,
        cwd=folder.parent,
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return RunFolder(folder)


def test_a_run_on_files_of_gpt_neox_exports_with_the_tokenizer_that_its_configuration_names(
    tmp_path: Path, dataset: DatasetFolder
) -> None:
    prefix = tmp_path / "tokens"
    store = TokenStore.open(dataset.path, "train")
    export_mmap(store, prefix, vocab_size=300)
    run = train(
        tmp_path / "run", f"data_path={prefix}", f"vocab_file={dataset.tokenizer}", "split=50,50,0", "eval_iters=0"
    )
    record = convert(run)
    assert (run.hf / "tokenizer.json").read_bytes() == dataset.tokenizer.read_bytes()
    parity = json.loads(run.parity.read_text())
    assert parity["split"] == "validation" and parity["within_tolerance"]
    assert record["files"] and run.converted.is_file()

    text = run.config_file.read_text()
    run.config_file.write_text(text.replace(f"vocab_file: {dataset.tokenizer}", "vocab_file: null"))
    with pytest.raises(ConfigError, match=r"an export needs the tokenizer, .*tokens do not hold; set `vocab_file` to"):
        convert(run)


@pytest.mark.full
def test_a_run_on_a_blend_alone_exports_with_the_tokenizer_of_its_sets(tmp_path: Path, dataset: DatasetFolder) -> None:
    other = make_dataset(tmp_path / "other")
    paths = [str(dataset.path), str(other.path)]
    run = train(tmp_path / "run", f"train_data_paths={json.dumps(paths)}", "eval_iters=0")
    assert convert(run)["files"]
    assert (run.hf / "tokenizer.json").read_bytes() == dataset.tokenizer.read_bytes()
    manifest = json.loads(other.manifest.read_text())
    other.manifest.write_text(json.dumps(manifest | {"digest": "0" * 64}))
    with pytest.raises(CheckpointError, match="is not the dataset that"):
        convert(run)
