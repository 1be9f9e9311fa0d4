"""What this user may not read is named by its path, by the real command without the powers of root."""

import os
import subprocess
import sys

import pytest

LIKE_A_USER = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
]


def call(folder, *arguments):
    """The command's exit code and what it said."""
    prefix = LIKE_A_USER if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, "-m", "neox_train.cli", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


@pytest.fixture
def corpus(tmp_path, byte_tokenizer):
    (tmp_path / "corpus" / "sub").mkdir(parents=True)
    for name in ("corpus/a.txt", "corpus/sub/b.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "pipeline.yml").write_text(
        "datasets:\n  small:\n    source: {kind: files, files: [corpus]}\n"
        f"    tokenizer: {{file: {byte_tokenizer}}}\n"
        "    splits: {train: 1.0, validation: 0.0, test: 0.0}\n"
        "runs:\n  one: {config: [none.yml], dataset: small}\n"
    )
    return tmp_path


def test_a_folder_and_a_file_of_the_corpus(corpus):
    tokenize = ("tokenize", "small", "--pipeline", "pipeline.yml")
    (corpus / "corpus" / "sub").chmod(0)
    try:
        code, told = call(corpus, *tokenize)
        assert code == 2 and told.startswith("error: `source.files`: corpus/sub cannot be read (Permission denied)"), (
            told
        )
    finally:
        (corpus / "corpus" / "sub").chmod(0o755)
    (corpus / "corpus" / "a.txt").chmod(0)
    code, told = call(corpus, *tokenize)
    assert code == 2 and told.startswith("error: corpus/a.txt cannot be read (Permission denied)"), told
    assert not (corpus / "results" / "datasets" / "small" / "manifest.json").exists()


def test_a_shard_is_not_called_damaged(corpus):
    assert call(corpus, "tokenize", "small", "--pipeline", "pipeline.yml") == (0, "")
    dataset = corpus / "results" / "datasets" / "small"
    shard = dataset / "tokens-train-00000.h5"
    shard.chmod(0)
    code, told = call(corpus, "data", "inspect", str(dataset))
    assert code == 2 and told.startswith(f"error: {shard} cannot be read (Permission denied); give read permission")
