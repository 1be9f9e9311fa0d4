"""What this user may not read is named by its path, by the real command without the powers of root."""

import os
import subprocess
import sys

import pytest

from tests.data.pairs import write_pair

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


@pytest.mark.parametrize(
    ("pattern", "mode"),
    [
        ("corpus/*/*.txt", 0),
        ("corpus/*/*.txt", 0o444),
        ("corpus/**/*.txt", 0),
        ("{root}/corpus/**", 0o444),
        ("corpus/sub/b.txt", 0),
        ("corpus/sub/b.txt", 0o111),
    ],
)
def test_a_pattern_passes_over_no_folder_that_cannot_be_read(corpus, pattern, mode):
    pattern = pattern.format(root=corpus)
    pipeline = corpus / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace("[corpus]", f'["{pattern}"]'))
    sub = corpus / "corpus" / "sub"
    named = sub if pattern.startswith("/") else "corpus/sub"
    sub.chmod(mode)
    try:
        code, told = call(corpus, "tokenize", "small", "--pipeline", "pipeline.yml")
    finally:
        sub.chmod(0o755)
    if mode == 0o111 and pattern == "corpus/sub/b.txt":
        assert (code, told) == (0, "")
    else:
        sentence = f"error: `source.files`: {named} cannot be read (Permission denied), and {pattern} asks for what"
        assert code == 2 and told.startswith(sentence), told


def test_a_shard_is_not_called_damaged(corpus):
    assert call(corpus, "tokenize", "small", "--pipeline", "pipeline.yml") == (0, "")
    dataset = corpus / "results" / "datasets" / "small"
    shard = dataset / "tokens-train-00000.h5"
    shard.chmod(0)
    code, told = call(corpus, "data", "inspect", str(dataset))
    assert code == 2 and told.startswith(f"error: {shard} cannot be read (Permission denied); give read permission")


def test_a_manifest_and_token_files_that_may_not_be_read_are_not_called_absent(tmp_path):
    script = """
import sys
from pathlib import Path
from neox_train.data.manifest import load_manifest
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.pair_files import is_pair
from neox_train.errors import DataError
for read in (load_manifest, MmapTokens.open):
    try:
        read(Path(sys.argv[1]))
    except DataError as error:
        print(error, file=sys.stderr)
print(is_pair(Path(sys.argv[1])), file=sys.stderr)
"""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "manifest.json").write_text("{}")
    write_pair(tmp_path / "set" / "pair", [[1, 2]])
    told = []
    for path, mode, target in (("set", 0, "set"), ("set/pair", 0, "set"), ("set/pair", 0, "set/pair.bin")):
        (tmp_path / target).chmod(mode)
        try:
            prefix = LIKE_A_USER if os.geteuid() == 0 else []
            command = [*prefix, sys.executable, "-c", script, path]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
        finally:
            (tmp_path / target).chmod(0o755)
        told.append(done.stderr.splitlines())
    allow = "cannot be read (Permission denied); give read permission for it and its folder"
    assert told[0][0] == f"set/manifest.json {allow}, or copy it anew"
    assert told[1][1:] == [f"set/pair.idx {allow}", "False"]
    assert told[2][1:] == [f"set/pair.bin {allow}", "True"]
