import ast
import hashlib
import json
import struct
import subprocess
import sys

import pytest

from neox_train.config.layout import DatasetFolder
from neox_train.data.mmap_files import MmapTokens, export_mmap
from neox_train.data.mmap_import import import_mmap
from neox_train.data.store import TokenStore
from neox_train.data.verification import verify_dataset
from neox_train.errors import DataError
from tests.data.pairs import write_pair


@pytest.mark.parametrize("size", [1000, 65_499, 65_500, 65_535, 65_536, 65_537, 70_000])
def test_every_vocabulary_size_makes_the_round_trip(cases, tmp_path, make_spec, build, folder, size):
    script = [sys.executable, str(cases / "09-make-tokenizer.py"), str(size), str(tmp_path / "made")]
    ids = ast.literal_eval(subprocess.run(script, capture_output=True, text=True, check=True, timeout=60).stdout)
    manifest = build(make_spec(tmp_path / "made" / "corpus.jsonl", tokenizer=tmp_path / "made" / "tokenizer.json"))
    store = TokenStore.open(folder.path, "train")
    assert manifest.vocab_size == size
    assert store.document(0).tolist() == [*ids, 0]
    assert manifest.dtype == store.dtype.name == ("uint16" if size <= 65_536 else "uint32")

    _, index = export_mmap(store, tmp_path / "exported", vocab_size=size)
    assert index.read_bytes()[17] == (8 if size < 65_500 else 4)
    back = DatasetFolder(tmp_path / "back")
    imported = import_mmap({"train": tmp_path / "exported"}, folder.tokenizer, back, report=lambda line: None)
    assert TokenStore.open(back.path, "train").document(0).tolist() == [*ids, 0]
    assert imported.splits["train"].shards == manifest.splits["train"].shards
    assert verify_dataset(folder.path) == verify_dataset(back.path) == []


def export_texts(tmp_path, make_spec, build, folder, texts):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    build(make_spec(corpus))
    return export_mmap(TokenStore.open(folder.path, "train"), tmp_path / "exported", vocab_size=257)


def test_the_files_have_the_documented_layout(tmp_path, make_spec, build, folder):
    tokens, index = export_texts(tmp_path, make_spec, build, folder, ["ab", "c"])
    ids = TokenStore.open(folder.path, "train").read(0, 5)
    assert tokens.read_bytes() == ids.astype("<u2").tobytes()
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 2, 3)
    assert index.read_bytes() == header + struct.pack("<2i2q3q", 3, 2, 0, 6, 0, 1, 2)


def test_a_second_export_gives_the_same_bytes(tmp_path, make_spec, build, folder):
    texts = [f"document {index} " * (index % 7 + 1) for index in range(30)]
    paths = export_texts(tmp_path, make_spec, build, folder, texts)
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    back = DatasetFolder(tmp_path / "back")
    import_mmap({"train": tmp_path / "exported"}, folder.tokenizer, back, report=lambda line: None)
    again = export_mmap(TokenStore.open(back.path, "train"), tmp_path / "again", vocab_size=257)
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in again] == hashes
    assert [item.tolist() for item in MmapTokens.open(tmp_path / "again")] == [
        TokenStore.open(folder.path, "train").document(index).tolist() for index in range(30)
    ]


def test_open_documents_are_closed_and_empty_ones_dropped(tmp_path, byte_tokenizer):
    write_pair(tmp_path / "pair", [[1, 2], [], [3, 256]])
    lines: list[str] = []
    folder = DatasetFolder(tmp_path / "dataset")
    manifest = import_mmap({"validation": tmp_path / "pair"}, byte_tokenizer, folder, report=lines.append)
    store = TokenStore.open(folder.path, "validation")
    assert [store.document(index).tolist() for index in range(2)] == [[1, 2, 256], [3, 256]]
    assert manifest.dropped.empty_documents == 1 and lines[0].startswith("1 documents had no end-of-document")
    assert TokenStore.open(folder.path, "train").num_documents == 0


@pytest.mark.parametrize(
    ("items", "words"),
    [([[1], [2, 257]], r"pair\.bin item 1: ids go from 2 to 257"), ([[-1]], "from -1"), ([[1, 256, 2]], "inside")],
)
def test_ids_that_cannot_be_are_refused_and_nothing_is_left(tmp_path, byte_tokenizer, items, words):
    write_pair(tmp_path / "pair", items)
    folder = DatasetFolder(tmp_path / "dataset")
    with pytest.raises(DataError, match=words):
        import_mmap({"train": tmp_path / "pair"}, byte_tokenizer, folder)
    assert {path.name for path in folder.path.iterdir()} <= {".lock"}


def test_damaged_pairs_are_one_sentence(tmp_path):
    write_pair(tmp_path / "pair", [[1, 2], [3]])
    index, tokens = (tmp_path / "pair.idx").read_bytes(), (tmp_path / "pair.bin").read_bytes()
    cases = [
        (index[:-1], tokens, "its header says"),
        (b"TNTIDX" + index[6:], tokens, "no index"),
        (index[:17] + b"\x06" + index[18:], tokens, "type code 6"),
        (index, tokens[:-1], "points at byte 12"),
    ]
    for idx, bin_, words in cases:
        (tmp_path / "pair.idx").write_bytes(idx)
        (tmp_path / "pair.bin").write_bytes(bin_)
        with pytest.raises(DataError, match=words):
            MmapTokens.open(tmp_path / "pair")
    with pytest.raises(DataError, match=r"none\.idx cannot be read"):
        MmapTokens.open(tmp_path / "none")


def test_an_existing_dataset_is_never_overwritten_by_an_import(tmp_path, make_spec, build, folder):
    export_texts(tmp_path, make_spec, build, folder, ["text"])
    with pytest.raises(DataError, match="holds a dataset already"):
        import_mmap({"train": tmp_path / "exported"}, folder.tokenizer, folder)
