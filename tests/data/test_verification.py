import json

import h5py
import pytest

from neox_train.data.inspection import describe_dataset
from neox_train.data.manifest import load_manifest
from neox_train.data.verification import verify_dataset
from neox_train.errors import DataError


@pytest.fixture
def dataset(tmp_path, make_spec, build, folder):
    lines = [json.dumps({"text": f"document {index} " * (index + 1)}) for index in range(12)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
    build(make_spec(tmp_path / "corpus.jsonl"))
    assert verify_dataset(folder.path) == []
    return folder


def test_every_flipped_byte_of_a_shard_is_found(dataset):
    shard = dataset.shard("train", 0)
    whole = shard.read_bytes()
    for place in range(0, len(whole), 211):
        shard.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert verify_dataset(dataset.path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [(0, 257, "id 257 is outside the vocabulary of 257"), (0, 256, "end-of-document tokens do not close")],
)
def test_wrong_tokens_are_named(dataset, place, value, words):
    with h5py.File(dataset.shard("train", 0), "r+") as file:
        file["tokens"][place] = value
    assert any(words in problem for problem in verify_dataset(dataset.path))


def test_wrong_offsets_and_counts_are_named(dataset):
    with h5py.File(dataset.shard("train", 0), "r+") as file:
        file["document_offsets"][1] = 0
    assert any("document offsets" in problem for problem in verify_dataset(dataset.path))
    raw = json.loads(dataset.manifest.read_text())
    raw["splits"]["train"]["tokens"] += 1
    dataset.manifest.write_text(json.dumps(raw))
    assert any("its shards" in problem for problem in verify_dataset(dataset.path))


def test_an_exchanged_tokenizer_is_named(dataset):
    dataset.tokenizer.write_text("{}")
    assert verify_dataset(dataset.path) == ["tokenizer.json is not the one the tokens were made with"]
    dataset.tokenizer.unlink()
    assert verify_dataset(dataset.path) == ["tokenizer.json cannot be read (No such file or directory)"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.pop("format_version"), "is damaged"),
        (lambda raw: raw.update(format_version=2), "has format_version 2"),
        (lambda raw: raw.pop("eod_id"), "eod_id: Field required"),
        (lambda raw: raw.update(other=1), "other: Extra inputs"),
    ],
)
def test_a_manifest_that_is_not_whole_is_one_sentence(dataset, change, words):
    raw = json.loads(dataset.manifest.read_text())
    change(raw)
    dataset.manifest.write_text(json.dumps(raw))
    with pytest.raises(DataError, match=words):
        load_manifest(dataset.path)


def test_a_folder_without_manifest_is_no_dataset(tmp_path):
    with pytest.raises(DataError, match="neox-train tokenize"):
        load_manifest(tmp_path)


def test_inspection_shows_counts_lengths_and_text(dataset):
    page = describe_dataset(dataset.path, samples=1, sample_tokens=10)
    assert "train: 12 documents" in page and "'document 0'" in page and "validation: 0 documents" in page
    bars = [line for line in page.splitlines() if " tokens " in line and "#" in line]
    assert sum(int(line.split(" tokens ")[1].split()[0]) for line in bars) == 12
