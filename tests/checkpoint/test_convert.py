"""The convert stage on a run that the real trainer trained."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
import typer
from typer.testing import CliRunner

from neox_train.checkpoint import convert as stage_code
from neox_train.checkpoint.convert import ConvertOptions, convert_run
from neox_train.checkpoint.export_record import RECORD_NAME
from neox_train.checkpoint.trained_text import choose_windows, list_splits
from neox_train.commands.convert import register
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.data.store import TokenStore
from neox_train.errors import CheckpointError, DataError, NotBuiltError, UserError
from neox_train.files import sha256_file
from tests.checkpoint.trained_run import END_OF_DOCUMENT, make_dataset, train_run


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return make_dataset(tmp_path_factory.mktemp("datasets") / "text")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> RunFolder:
    return train_run(tmp_path_factory.mktemp("runs") / "small", dataset, "20-default-width.yml")


@pytest.fixture
def run(tmp_path: Path, trained: RunFolder) -> RunFolder:
    """A fresh copy of the trained run."""
    shutil.copytree(trained.path, tmp_path / "small")
    return RunFolder(tmp_path / "small")


def _convert(run: RunFolder, **options: object) -> tuple[dict, list[str]]:
    said: list[str] = []
    return convert_run(run, ConvertOptions(**options), report=said.append), said  # type: ignore[arg-type]


def test_the_export_loads_and_computes_what_was_trained(run: RunFolder, dataset: DatasetFolder) -> None:
    record, _ = _convert(run)
    config = json.loads((run.hf / "config.json").read_text())
    assert config["intermediate_size"] == 256
    assert config["vocab_size"] == json.loads(dataset.manifest.read_text())["vocab_size"]
    model, report = transformers.AutoModelForCausalLM.from_pretrained(run.hf, output_loading_info=True)
    assert not any(report.values()), report
    assert type(model).__name__ == "GPTNeoXForCausalLM"
    parity = json.loads(run.parity.read_text())
    assert parity["within_tolerance"] and parity["max_abs_difference"] < 1e-4
    assert parity["split"] == "validation" and parity["argmax_agreement"] > 0.99
    assert parity["trained_perplexity"] == pytest.approx(parity["exported_perplexity"], rel=1e-5)
    assert json.loads(run.converted.read_text()) == record
    assert record["manifest_sha256"] == sha256_file(run.checkpoints / "step_00000002" / "manifest.json")
    for name, file in record["files"].items():
        assert file == {"bytes": (run.hf / name).stat().st_size, "sha256": sha256_file(run.hf / name)}


def test_a_width_of_its_own_reaches_the_export(tmp_path: Path, dataset: DatasetFolder) -> None:
    run = train_run(tmp_path / "own", dataset, "20-own-width.yml")
    _convert(run)
    assert json.loads((run.hf / "config.json").read_text())["intermediate_size"] == 192
    _, report = transformers.AutoModelForCausalLM.from_pretrained(run.hf, output_loading_info=True)
    assert not any(report.values()), report


def test_the_tokenizer_of_the_export_is_the_one_of_the_training(run: RunFolder, dataset: DatasetFolder) -> None:
    _convert(run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.hf)
    text = "def f(x):\n\treturn  x  # naïve ☃ " + END_OF_DOCUMENT
    from tokenizers import Tokenizer

    assert tokenizer(text)["input_ids"] == Tokenizer.from_file(str(dataset.tokenizer)).encode(text).ids
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) == json.loads(dataset.manifest.read_text())["vocab_size"]
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == (END_OF_DOCUMENT, 0)
    model = transformers.AutoModelForCausalLM.from_pretrained(run.hf)
    output = model.generate(**tokenizer("import ", return_tensors="pt"), max_new_tokens=3, do_sample=False)
    assert output.shape[1] >= len(tokenizer("import ")["input_ids"]) + 1


def test_repeating_does_nothing_but_the_marker(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = _convert(run)
    times = {path: path.stat().st_mtime_ns for path in [*run.hf.iterdir(), run.parity]}
    run.converted.unlink()
    for name in ("write_export", "read_model_weights", "compare"):
        monkeypatch.setattr(stage_code, name, None)
    second, said = _convert(run)
    assert second == first and run.converted.exists()
    assert any("already converted" in line for line in said)
    assert {path: path.stat().st_mtime_ns for path in times} == times


@pytest.mark.parametrize("file", ["hf/model.safetensors", f"hf/{RECORD_NAME}", "parity.json"])
def test_a_damaged_file_is_made_again(run: RunFolder, file: str) -> None:
    first, _ = _convert(run)
    whole = (run.path / file).read_bytes()
    (run.path / file).write_bytes(whole[:20])
    second, _ = _convert(run)
    assert second == first
    assert (run.path / file).read_bytes() == whole


def test_a_killed_export_repeats_only_the_rest(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    from neox_train.checkpoint import hf_export

    real, written = hf_export.write_shard, []

    def die_at_the_third(folder: Path, shard: object, *rest: object) -> dict:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(shard.file)  # type: ignore[attr-defined]
        return real(folder, shard, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(hf_export, "write_shard", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        _convert(run, max_shard_bytes=100_000)
    assert not run.hf.exists() and not run.converted.exists()
    kept = {name: (run.path / ".hf.partial" / name).stat().st_mtime_ns for name in written}

    def count(folder: Path, shard: object, *rest: object) -> dict:
        written.append(shard.file)  # type: ignore[attr-defined]
        return real(folder, shard, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(hf_export, "write_shard", count)
    record, _ = _convert(run, max_shard_bytes=100_000)
    shards = [name for name in record["files"] if name.endswith(".safetensors")]
    assert len(shards) > 3 and sorted(written) == sorted(shards)
    assert {name: (run.hf / name).stat().st_mtime_ns for name in kept} == kept
    _, report = transformers.AutoModelForCausalLM.from_pretrained(run.hf, output_loading_info=True)
    assert not any(report.values()), report


def test_an_export_that_computes_something_else_fails_the_stage(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from neox_train.checkpoint import hf_shards

    real = hf_shards.to_hf

    def shift(row: object, weights: object, architecture: object) -> dict[str, torch.Tensor]:
        tensors = real(row, weights, architecture)  # type: ignore[arg-type]
        return {n: 1.5 * t if n.endswith("layers.1.attention.dense.weight") else t for n, t in tensors.items()}

    monkeypatch.setattr(hf_shards, "to_hf", shift)
    with pytest.raises(CheckpointError, match=r"logits .* apart on validation text"):
        _convert(run)
    assert run.hf.is_dir() and not run.converted.exists()
    assert json.loads(run.parity.read_text())["within_tolerance"] is False
    with pytest.raises(CheckpointError, match="apart"):
        _convert(run)


def test_sixteen_bit_weights_are_compared_as_stored(run: RunFolder) -> None:
    record, _ = _convert(run, dtype="bfloat16")
    assert record["parity"]["max_abs_difference"] < 1e-4
    model = transformers.AutoModelForCausalLM.from_pretrained(run.hf, dtype="auto")
    assert model.dtype == torch.bfloat16


def test_a_damaged_checkpoint_is_refused(run: RunFolder) -> None:
    largest = max((run.checkpoints / "step_00000002").glob("*.safetensors"), key=lambda p: p.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[-5] ^= 1
    largest.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged .*SHA-256"):
        _convert(run)
    assert not run.hf.exists()


def test_a_run_that_is_not_trained_is_refused(run: RunFolder) -> None:
    run.finished.unlink()
    with pytest.raises(CheckpointError, match="not trained"):
        _convert(run)


def test_a_damaged_record_of_the_training_is_refused(run: RunFolder) -> None:
    run.trained.write_text('{"checkpoint": ')
    with pytest.raises(CheckpointError, match=r"trained\.json is damaged"):
        _convert(run)


def test_a_checkpoint_of_another_manifest_is_refused(run: RunFolder) -> None:
    record = json.loads(run.finished.read_text())
    run.trained.write_text(json.dumps(record | {"manifest_sha256": "0" * 64}))
    with pytest.raises(CheckpointError, match="another manifest"):
        _convert(run)


def test_a_dataset_with_another_vocabulary_is_refused(run: RunFolder, dataset: DatasetFolder, tmp_path: Path) -> None:
    other = shutil.copytree(dataset.path, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    (other / "manifest.json").write_text(json.dumps(manifest | {"vocab_size": 299}))
    run.config_file.write_text(run.config_file.read_text().replace(str(dataset.path), str(other)))
    with pytest.raises(DataError, match="299 tokens, the run was trained with 300"):
        _convert(run)


def test_what_has_no_class_is_refused_before_anything_is_written(run: RunFolder) -> None:
    text = run.config_file.read_text()
    assert "\nactivation: gelu\n" in text
    run.config_file.write_text(text.replace("\nactivation: gelu\n", "\nactivation: softsign\n"))
    with pytest.raises(NotBuiltError, match="activation: softsign"):
        _convert(run)
    assert not run.hf.exists()


def test_windows_are_whole_and_spread_over_the_split(dataset: DatasetFolder) -> None:
    store = TokenStore.open(dataset.path, "validation")
    split, windows = choose_windows(list_splits(dataset.path), 64)
    assert split == "validation" and windows.shape == (4, 65)
    assert windows[0].tolist() == store.read(0, 65).tolist()
    assert windows[-1].tolist() == store.read(store.num_tokens - 65, store.num_tokens).tolist()
    _, long = choose_windows(list_splits(dataset.path), 10**9)
    assert long.shape == (1, store.num_tokens)


def test_the_command(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    register(app)
    app.command("other")(lambda: None)
    done = CliRunner().invoke(app, ["convert", "--run-dir", str(run.path)])
    assert done.exit_code == 0, done.output
    assert "parity on" in done.output and (run.hf / RECORD_NAME).is_file()
    failed = CliRunner().invoke(app, ["convert", "--run-dir", str(run.path), "--dtype", "int8"])
    assert isinstance(failed.exception, UserError) and "'int8'" in str(failed.exception)
    failure = json.loads(run.failure.read_text())
    assert failure["stage"] == "convert" and str(run.path) in failure["command"]
    for arguments in ([], ["nowhere", "--results", str(run.path)], ["--run-dir", str(run.path / "nowhere")]):
        refused = CliRunner().invoke(app, ["convert", *arguments])
        assert isinstance(refused.exception, UserError)
    assert not (run.path / "runs").exists()
