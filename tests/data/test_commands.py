"""The tokenize and data commands as a person calls them."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from neox_train.commands import data, tokenize
from neox_train.config.pipeline import load_pipeline
from neox_train.data.tokenizer import load_tokenizer
from neox_train.errors import ConfigError, DataError

PIPELINE = """\
datasets:
  small:
    source: {{kind: files, files: ["{folder}/*.jsonl"]}}
    tokenizer: {{train: bpe, vocab_size: 300}}
runs:
  first: {{config: [model.yml], dataset: small}}
"""


@pytest.fixture
def call(tmp_path):
    app = typer.Typer()
    tokenize.register(app)
    data.register(app)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(folder=tmp_path))

    def call(*arguments: object):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def test_a_dataset_from_corpus_to_exchange_and_back(call, tmp_path):
    lines = [json.dumps({"text": f"some text number {index}"}) for index in range(50)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    stage = ("tokenize", "small", "--pipeline", tmp_path / "pipeline.yaml", "--results", tmp_path / "results")
    folder = tmp_path / "results" / "datasets" / "small"
    assert "train" in call(*stage).output
    assert "nothing to do" in call(*stage).output
    assert not (folder / "failure.json").exists()
    assert "48 documents" in call("data", "inspect", folder, "--picture", tmp_path / "lengths.png").output
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
    assert "as it was written" in call("data", "verify", folder).output
    call("data", "export", folder, tmp_path / "tokens")
    back = tmp_path / "back"
    call("data", "import", back, "--tokenizer", folder / "tokenizer.json", "--train", tmp_path / "tokens")
    assert (back / "tokens-train-00000.h5").read_bytes() == (folder / "tokens-train-00000.h5").read_bytes()
    (back / "tokens-train-00000.h5").unlink()
    with pytest.raises(DataError, match="is not whole"):
        call("data", "verify", back)
    with pytest.raises(DataError, match="bring it back, or delete its folder and run `neox-train data import` again"):
        call("data", "inspect", back)
    (folder / "tokens-train-00000.h5").unlink()
    with pytest.raises(DataError, match="bring it back, or delete it and run `neox-train tokenize` again"):
        call("data", "inspect", folder)


def test_an_export_replaces_files_only_when_asked_and_needs_documents(call, tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"text": "one"}\n')
    stage = ("tokenize", "small", "--pipeline", tmp_path / "pipeline.yaml", "--results", tmp_path / "results")
    folder = tmp_path / "results" / "datasets" / "small"
    call(*stage)
    with pytest.raises(DataError, match=r"the split `test` of .*small has no document, .* with --split: train$"):
        call("data", "export", folder, tmp_path / "tokens", "--split", "test")
    assert not list(tmp_path.glob("tokens*"))
    (tmp_path / "tokens.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match=r"tokens\.bin exist already; name another prefix, or .* --overwrite"):
        call("data", "export", folder, tmp_path / "tokens")
    assert (tmp_path / "tokens.bin").read_bytes() == b"mine" and not (tmp_path / "tokens.idx").exists()
    call("data", "export", folder, tmp_path / "tokens", "--overwrite")
    written = (tmp_path / "tokens.bin").read_bytes()
    with pytest.raises(DataError, match=r"tokens\.bin and .*tokens\.idx exist already"):
        call("data", "export", folder, tmp_path / "tokens")
    call("data", "export", folder, tmp_path / "tokens", "--overwrite")
    assert (tmp_path / "tokens.bin").read_bytes() == written != b"mine"


def test_a_failure_is_left_for_the_report(call, tmp_path):
    (tmp_path / "corpus.jsonl").write_text("{")
    stage = ("tokenize", "small", "--pipeline", tmp_path / "pipeline.yaml", "--results", tmp_path / "results")
    with pytest.raises(DataError):
        call(*stage)
    failure = json.loads((tmp_path / "results" / "datasets" / "small" / "failure.json").read_text())
    assert failure["stage"] == "tokenize" and failure["subject"] == "dataset small"
    assert "corpus.jsonl line 1" in failure["sentence"] and failure["command"].startswith("neox-train tokenize small")


def test_wrong_names_are_one_sentence(call, tmp_path):
    with pytest.raises(ConfigError, match="no dataset 'other'; it has small"):
        call("tokenize", "other", "--pipeline", tmp_path / "pipeline.yaml")
    with pytest.raises(ConfigError, match="at least --train"):
        call("data", "import", tmp_path / "new", "--tokenizer", tmp_path / "tokenizer.json")


def test_a_tokenizer_of_another_format_is_written(call, tmp_path):
    target = tmp_path / "tokenizer.json"
    assert "257 tokens, <|endoftext|> is 256" in call("data", "tokenizer", target, "--byte").output
    assert load_tokenizer(target).encode_batch(["ab"]) == [[97, 98]]
    with pytest.raises(ConfigError, match="one of --gpt2"):
        call("data", "tokenizer", target)


def test_the_first_example_of_the_guide_is_a_pipeline_file(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    example = tmp_path / "pipeline.yml"
    example.write_text(guide.split("```yaml\n")[1].split("```")[0])
    pipeline = load_pipeline(example)
    assert pipeline.dataset("papers").source.text_keys == ["text"] and "small" in pipeline.runs
