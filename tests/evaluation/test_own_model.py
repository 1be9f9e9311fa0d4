"""A checkpoint that no class of transformers expresses, used as docs/checkpoints.md says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from neox_train.checkpoint.hf_config import choose_family
from neox_train.config.architecture import Architecture
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import load_config
from neox_train.data.store import TokenStore
from neox_train.data.windows import Windows
from neox_train.errors import CheckpointError, ConfigError, NotBuiltError
from neox_train.evaluation.own_model import load_own_model
from tests.checkpoint.trained_run import make_dataset, train_run

UNEXPORTED = {
    "pos_emb": "alibi",
    "attention_config": [[["global", "local"], 1]],
    "sparsity_config": {"block": 16, "num_local_blocks": 2},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return make_dataset(tmp_path_factory.mktemp("datasets") / "text")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    return train_run(tmp_path_factory.mktemp("runs") / "windowed", dataset, **UNEXPORTED)


def test_it_computes_what_the_training_validated(run: RunFolder, dataset: DatasetFolder) -> None:
    model = load_own_model(run.path)
    with pytest.raises(NotBuiltError, match=r"docs/checkpoints\.md"):
        choose_family(Architecture.from_config(model.config))
    records = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    (validated,) = [record["loss"] for record in records if record["kind"] == "validation"]
    windows = Windows(TokenStore.open(dataset.path, "validation"), model.config.seq_length)
    first = range(model.config.eval_iters * model.config.train_batch_size)
    with torch.inference_mode():
        loss = float(model.network.loss(torch.from_numpy(windows.batch(first))))
    assert model.step == 2 and loss == pytest.approx(validated, rel=1e-6)


def test_another_step_of_the_run_is_another_model(run: RunFolder) -> None:
    tokens = torch.arange(8)[None]
    first = load_own_model(run.path, run.checkpoints / "step_00000001")
    assert first.step == 1
    assert not torch.equal(first(input_ids=tokens).logits, load_own_model(run.path)(input_ids=tokens).logits)


def test_what_cannot_be_read_is_told_in_a_sentence(tmp_path: Path, run: RunFolder) -> None:
    with pytest.raises(ConfigError, match="no run's folder"):
        load_own_model(tmp_path)
    (tmp_path / "config.yml").write_text(run.config_file.read_text())
    with pytest.raises(CheckpointError, match="holds no complete checkpoint; train the run first"):
        load_own_model(tmp_path)
    torn = tmp_path / "step_00000002"
    torn.mkdir()
    with pytest.raises(CheckpointError, match="is damaged"):
        load_own_model(tmp_path, torn)


def test_the_guide_runs_as_it_stands(
    repository: Path,
    tmp_path: Path,
    run: RunFolder,
    dataset: DatasetFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "results/runs").mkdir(parents=True)
    (tmp_path / "results/datasets").mkdir()
    (tmp_path / "results/runs/mine").symlink_to(run.path)
    (tmp_path / "results/datasets/stdlib").symlink_to(dataset.path)
    monkeypatch.chdir(tmp_path)
    examples = read_examples(repository / "docs/checkpoints.md")
    assert len(examples) == 2
    for example in examples:
        names: dict[str, object] = {}
        exec(compile(example, "docs/checkpoints.md", "exec"), names)
        if "model" in names:
            assert names["logits"].shape[-1] == load_config([run.config_file]).vocab_size  # type: ignore[attr-defined]
    said = capsys.readouterr().out
    assert "step 2: loss " in said and "def read_file(path):" in said
    assert "layers.1.attention.query_key_value.weight (192, 64)" in said
    assert (tmp_path / "weights.safetensors").is_file()


def read_examples(page: Path) -> list[str]:
    """Every indented block of a page that begins with an import."""
    blocks, lines = [], [*page.read_text().splitlines(), "end"]
    block: list[str] = []
    for line in lines:
        if line.startswith("    ") or (block and not line):
            block.append(line[4:])
            continue
        if block and block[0].startswith(("from ", "import ")):
            blocks.append("\n".join(block))
        block = []
    return blocks
