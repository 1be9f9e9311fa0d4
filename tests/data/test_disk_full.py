"""A disk that is full while a dataset is written, on a real small file system."""

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder
from neox_train.data.tokenize import tokenize_dataset
from neox_train.errors import StorageError

from .conftest import left_behind, read_texts


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A tmpfs of ``request.param`` KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root; run the tests as root")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}k", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"this machine mounts no tmpfs; `{' '.join(command)}` must work")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


# The store needs 400 KiB: the disks fill while the first small files are written, while tokens are, and before HDF5
# lays out what goes around these.
@pytest.mark.parametrize("small_disk", [16, 64, 300, 416], indirect=True)
def test_a_full_disk_is_one_sentence_and_leaves_room_again(small_disk, tmp_path, make_spec):
    random.seed(3)
    texts = ["".join(random.choices("abcdefgh \n", k=2000)) for _ in range(100)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    spec = make_spec(tmp_path / "corpus.jsonl")
    folder = DatasetFolder(small_disk / "dataset")
    with pytest.raises(StorageError) as caught:
        tokenize_dataset(spec, folder, report=lambda line: None)
    sentence = str(caught.value)
    assert "the disk is full" in sentence and str(folder.path) in sentence and "\n" not in sentence
    assert left_behind(folder) == set()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    tokenize_dataset(spec, folder, report=lambda line: None)
    assert read_texts(folder) == texts


@pytest.mark.parametrize("small_disk", [700], indirect=True)
def test_a_rebuild_that_finds_no_room_leaves_the_old_dataset(small_disk, tmp_path, make_spec):
    corpus = tmp_path / "corpus.jsonl"
    spec = make_spec(corpus)
    folder = DatasetFolder(small_disk / "dataset")
    texts = [letter * 1500 for letter in "abcdefghij" * 8]
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenize_dataset(spec, folder, report=lambda line: None)
    corpus.write_text("".join(json.dumps({"text": text.upper()}) + "\n" for text in texts * 2))
    with pytest.raises(StorageError, match="the disk is full"):
        tokenize_dataset(spec, folder, report=lambda line: None)
    assert read_texts(folder) == texts
