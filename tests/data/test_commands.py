"""The tokenize and data commands as a person calls them."""

import json

import pytest
import typer
from typer.testing import CliRunner

from neox_train.commands import data, tokenize
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
