import fcntl
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from neox_train.data import shards as shards_module
from neox_train.data.manifest import Manifest, Sources, make_manifest
from neox_train.data.shards import SplitWriter, store_dtype
from neox_train.data.store import TokenStore
from neox_train.errors import DataError

EOD = 0


def documents_of(seed: int, count: int, vocab_size: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(1, vocab_size, size=random.integers(1, 40), dtype=np.uint32) for _ in range(count)]


def write_store(folder, documents, *, vocab_size: int = 1000, max_tokens: int = 2**30) -> Manifest:
    folder.mkdir(exist_ok=True)
    writer = SplitWriter(
        lambda index: folder / f"tokens-train-{index:05d}.h5",
        vocab_size=vocab_size,
        eod_id=EOD,
        tokenizer_sha256="0" * 64,
        max_tokens_per_shard=max_tokens,
    )
    for document in documents:
        writer.append(document, text_bytes=len(document))
    manifest = make_manifest(
        vocab_size=vocab_size,
        dtype=store_dtype(vocab_size).name,
        eod_token="<|endoftext|>",
        eod_id=EOD,
        tokenizer_sha256="0" * 64,
        splits={"train": writer.finish()},
        sources=Sources(files=0, bytes=0, digest=""),
    )
    manifest.write(folder)
    return manifest


@pytest.mark.parametrize("max_tokens", [2**30, 100, 1])
@pytest.mark.parametrize("vocab_size", [1000, 65_536, 65_537, 10**6])
def test_documents_and_ranges_read_back_over_any_number_of_shards(tmp_path, max_tokens, vocab_size):
    documents = [*documents_of(1, 50, vocab_size), np.array([vocab_size - 1], dtype=np.uint32)]
    manifest = write_store(tmp_path, documents, vocab_size=vocab_size, max_tokens=max_tokens)
    store = TokenStore.open(tmp_path, "train")
    stream = np.concatenate([np.append(document, EOD) for document in documents])
    assert store.num_tokens == len(stream) and store.num_documents == len(documents)
    assert (len(manifest.splits["train"].shards) == 1) == (max_tokens == 2**30)
    assert store.dtype == (np.uint16 if vocab_size <= 65_536 else np.uint32)
    assert np.array_equal(store.read(0, store.num_tokens), stream)
    for start, stop in [(0, 0), (0, 1), (5, 190), (99, 101), (store.num_tokens, store.num_tokens)]:
        assert np.array_equal(store.read(start, stop), stream[start:stop])
    for index, document in enumerate(documents):
        assert np.array_equal(store.document(index), np.append(document, EOD))
    assert store.document_offsets.dtype == np.int64
    assert store.document_offsets.tolist() == [0, *np.cumsum([len(document) + 1 for document in documents]).tolist()]


def test_shards_are_contiguous_little_endian_and_described(tmp_path):
    write_store(tmp_path, documents_of(2, 5, 1000))
    with h5py.File(tmp_path / "tokens-train-00000.h5") as file:
        assert file["tokens"].chunks is None and file["tokens"].dtype == np.dtype("<u2")
        assert file["tokens"].id.get_offset() is not None
        assert file["document_offsets"].dtype == np.dtype("<i8") and file["document_offsets"].shape == (6,)
        assert dict(file.attrs) == {
            "format_version": 1,
            "tokenizer_sha256": "0" * 64,
            "vocab_size": 1000,
            "eod_id": EOD,
            "tokens": file["tokens"].shape[0],
            "documents": 5,
        }
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_tokens_are_mapped_not_copied(tmp_path):
    write_store(tmp_path, documents_of(3, 50, 1000))
    store = TokenStore.open(tmp_path, "train")
    assert np.shares_memory(store.read(10, 50), store.read(20, 60))
    with pytest.raises(ValueError, match="read-only"):
        store.read(0, 5)[0] = 1


def test_equal_documents_make_equal_files(tmp_path):
    first = write_store(tmp_path / "a", documents_of(4, 20, 1000))
    second = write_store(tmp_path / "b", documents_of(4, 20, 1000))
    assert first == second
    assert write_store(tmp_path / "c", documents_of(5, 20, 1000)).digest != first.digest


def test_a_split_without_documents_is_an_empty_store(tmp_path):
    write_store(tmp_path, [])
    store = TokenStore.open(tmp_path, "train")
    assert store.num_tokens == store.num_documents == 0 and store.document_offsets.tolist() == [0]
    with pytest.raises(IndexError):
        store.document(0)
    with pytest.raises(DataError, match="no split `other`; name one it has: train"):
        TokenStore.open(tmp_path, "other")


def test_ids_outside_the_vocabulary_are_never_wrapped(tmp_path):
    with pytest.raises(DataError, match="id 65536"):
        write_store(tmp_path, [np.array([65_536], dtype=np.uint32)], vocab_size=65_536)


def test_a_shard_of_many_documents_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(shards_module, "MAX_DOCUMENTS_PER_SHARD", 8)
    manifest = write_store(tmp_path, documents_of(6, 20, 1000))
    assert [shard.documents for shard in manifest.splits["train"].shards] == [8, 8, 4]


def put_tokens(folder, manifest: Manifest, **dataset) -> None:
    """Replace the shard by a file with other tokens, of a size that the manifest then states."""
    (shard,) = manifest.splits["train"].shards
    with h5py.File(folder / shard.file, "w") as file:
        file.create_dataset("tokens", **dataset)
    size = (folder / shard.file).stat().st_size
    split = manifest.splits["train"].model_copy(update={"shards": (shard.model_copy(update={"bytes": size}),)})
    manifest.model_copy(update={"splits": {"train": split}}).write(folder)


def test_absent_and_cut_shards_are_refused_at_open(tmp_path):
    manifest = write_store(tmp_path, documents_of(7, 200, 1000))
    path = tmp_path / manifest.splits["train"].shards[0].file
    whole = path.read_bytes()
    for content, words in [(None, "missing"), (whole[:-1], "the manifest says"), (bytes(len(whole)), "no token shard")]:
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(DataError, match=words) as caught:
            TokenStore.open(tmp_path, "train")
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "dataset",
    [
        {"dtype": "u4"},
        {"dtype": ">u2"},
        {"dtype": "u2", "extra": 1},
        {"dtype": "u2", "chunks": (64,)},
        {"dtype": "u2", "chunks": (64,), "compression": "gzip"},
    ],
)
def test_tokens_of_another_type_length_or_layout_are_refused_at_open(tmp_path, dataset):
    manifest = write_store(tmp_path, documents_of(7, 200, 1000))
    tokens = np.zeros(manifest.splits["train"].tokens + dataset.pop("extra", 0), dtype=dataset.pop("dtype"))
    put_tokens(tmp_path, manifest, data=tokens, **dataset)
    with pytest.raises(DataError, match="a contiguous uint16"):
        TokenStore.open(tmp_path, "train")


@pytest.mark.parametrize("locking", ["FALSE", None])
def test_a_file_locked_by_another_is_read(tmp_path, locking):
    write_store(tmp_path, documents_of(8, 5, 1000))
    code = (
        "import sys; from pathlib import Path; from neox_train.data.store import TokenStore;"
        "print(TokenStore.open(Path(sys.argv[1]), 'train').num_documents)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_USE_FILE_LOCKING"}
    if locking is not None:
        environment["HDF5_USE_FILE_LOCKING"] = locking
    with open(tmp_path / "tokens-train-00000.h5", "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60
        )
    assert result.stdout.strip() == "5", result.stderr
