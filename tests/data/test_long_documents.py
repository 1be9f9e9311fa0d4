"""Documents that are not held in memory, made small by lower limits: the dataset is that of the whole text."""

import bz2
import gzip
import json
import random
import re
import subprocess
import sys

import pytest
import zstandard

from neox_train.data import limits, long_line
from neox_train.data.documents import LongDocument, Tally
from neox_train.data.json_lines import read_json_lines
from neox_train.data.sources import SourceFile
from neox_train.data.splits import Splitter
from neox_train.data.text_file import read_text_file
from neox_train.data.tokenize import tokenize_dataset
from neox_train.errors import DataError

from .conftest import left_behind, read_texts
from .test_cutting import random_text

SPLITS = {"train": 0.5, "validation": 0.25, "test": 0.25}
LONG = 3_000
OPENERS = {"": open, ".gz": gzip.open, ".bz2": bz2.open, ".zst": zstandard.open}


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch):
    """Lowers the limits, once called: the same test builds with and without."""

    def lower() -> None:
        monkeypatch.setattr(limits, "LONG_DOCUMENT_BYTES", LONG)
        monkeypatch.setattr(limits, "MAX_UNCUT_BYTES", 2 * LONG)
        monkeypatch.setattr(limits, "PIECE_CHARACTERS", 500)
        monkeypatch.setattr(long_line, "_KEPT_STRING_BYTES", 300)
        monkeypatch.setattr(long_line, "_PIECE_BYTES", 611)

    return lower


def quiet(line: str) -> None:
    pass


def write_lines(path, *, ascii_only: bool) -> None:
    choice = random.Random(5)
    records = []
    for seed in range(12):
        text = random_text(seed, words=choice.choice([3, 50, 900, 3000])) + '"\\\\"' * (seed % 4)
        record = {"id": seed, "text": text, "meta": {"note": random_text(seed + 100, 5)}}
        if seed % 3 == 0:
            record = {"other": random_text(seed + 50, 2500), **record, "tags": ["text", random_text(seed, 900)]}
        records.append(record)
    with OPENERS[path.suffix if path.suffix != ".jsonl" else ""](path, "wt", encoding="utf-8") as stream:
        stream.write("\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in records))


@pytest.mark.parametrize(
    ("name", "trained"),
    [
        ("a.jsonl", True),
        ("a.jsonl.gz", False),
        ("a.jsonl.bz2", False),
        ("a.jsonl.zst", False),
        ("escaped.jsonl", False),
        ("a.txt", False),
        ("a.txt", True),
    ],
)
def test_the_dataset_is_that_of_whole_documents(tmp_path, make_spec, folder, low_limits, name, trained):
    path = tmp_path / name
    if name == "a.txt":
        path.write_text("\ufeff" + random_text(1, words=5_000), newline="")
        spec = make_spec(path)
    else:
        write_lines(path, ascii_only=name.startswith("escaped"))
        spec = make_spec(path, splits=SPLITS)
    if trained:
        spec = spec.model_copy(update={"tokenizer": spec.tokenizer.model_validate({"train": "bpe", "vocab_size": 300})})
    whole = tokenize_dataset(spec, folder.part("whole"), report=quiet)
    low_limits()
    assert tokenize_dataset(spec, folder, report=quiet).splits == whole.splits


def read_all(path, low_limits, tally=None):
    low_limits()
    read = read_json_lines if path.suffix == ".jsonl" else read_text_file
    arguments = {"empty_is_error": True} if path.suffix != ".jsonl" else {"text_keys": ["text"]}
    return list(read(SourceFile(path.name, path, "text"), tally=tally or Tally(), **arguments))


def test_strings_cut_at_any_byte_are_read_as_they_are(tmp_path, low_limits, monkeypatch):
    path = tmp_path / "a.jsonl"
    pieces = ["🙂", "日", "é", "a", " ", "\\", '"', "\n", "\\ud83d", "\ud7ff", "\U0010ffff", "\\\\", "x" * 20]
    texts = ["".join(random.Random(seed).choices(pieces, k=2_500)) for seed in range(3)]
    for ascii_only in (False, True):
        path.write_text("\n".join(json.dumps({"text": text}, ensure_ascii=ascii_only) for text in texts), "utf-8")
        for size in (1, 5, 13, 64):
            low_limits()
            monkeypatch.setattr(long_line, "_PIECE_BYTES", size)
            documents = read_all(path, lambda: None)
            assert all(isinstance(document, LongDocument) for document in documents)
            assert ["".join(document.pieces()) for document in documents] == texts
            assert [document.num_bytes for document in documents] == [len(text.encode()) for text in texts]


BODY = random_text(3, 2_000)
ESCAPED = json.dumps(BODY)[1:-1]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f'{{"text": "{ESCAPED}', r"not valid JSON \(Unterminated string"),
        (f'{{"text": "{ESCAPED}\\x41"}}', r"not valid JSON \(Invalid \\escape"),
        (f'{{"text": "{ESCAPED}\\ud800 {ESCAPED}"}}', r"`text` holds the lone surrogate \\ud800"),
        (f'{{"text": "{ESCAPED}"}} x', r"not valid JSON \(Extra data"),
        (f'{{"text": "short", "other": "{ESCAPED}\\q"}}', r"not valid JSON \(Invalid \\escape"),
        (f'{{"other": "{ESCAPED}"}}', r"there is no key `text`, the object has `other`"),
        (f'["{ESCAPED}"]', "the line holds an array"),
        (f'{{"numbers": [{"1, " * LONG}1], "text": "a"}}', "more than 3000 bytes beside its long strings"),
        (f'{{"text": "{ESCAPED}\x01"}}', "not valid JSON"),
    ],
)
def test_a_long_line_that_is_wrong_is_named_and_the_next_is_read(tmp_path, low_limits, line, sentence):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "one"}}\n{line}\n{{"text": "two"}}\n')
    tally = Tally(skip_errors=True)
    assert [document.text for document in read_all(path, low_limits, tally)] == ["one", "two"]
    assert tally.skipped == 1
    with pytest.raises(DataError, match=rf"a\.jsonl line 2: .*{sentence}"):
        read_all(path, low_limits)


def test_bytes_that_are_no_text_are_named_in_long_files(tmp_path, low_limits):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a line\n" * 1_000 + b"b\xff\n" + b"more\n")
    with pytest.raises(DataError, match=r"a\.txt line 1001: byte 7002 of the file is not UTF-8 \(0xff\)"):
        read_all(path, low_limits)
    path.write_bytes(b"a line\n" * 1_000 + "é".encode()[:1])
    with pytest.raises(DataError, match=r"a\.txt line 1001: byte 7001 of the file is not UTF-8 \(0xc3\)"):
        read_all(path, low_limits)
    line = tmp_path / "b.jsonl"
    line.write_bytes(b'{"text": "' + b"word " * 2_000 + b'\xff"}\n')
    with pytest.raises(DataError, match=r"b\.jsonl line 1: byte \d+ of the line is not UTF-8 \(0xff\)"):
        read_all(line, low_limits)


def test_long_and_short_strings_of_several_keys(tmp_path, low_limits):
    record = {"title": "short", "body": BODY, "more": BODY + "!"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    low_limits()
    source = SourceFile("a.jsonl", tmp_path / "a.jsonl", "jsonl")
    documents = list(read_json_lines(source, ["more", "title", "body"], Tally()))
    assert ["".join(document.pieces()) for document in documents] == [BODY + "!", "short", BODY]


def test_ftfy_refuses_what_it_cannot_mend_whole(tmp_path, make_spec, folder, low_limits):
    pytest.importorskip("ftfy")
    (tmp_path / "a.txt").write_text(BODY)
    low_limits()
    with pytest.raises(DataError, match=r"a\.txt: `source\.ftfy` cannot mend a text of \d+ bytes, up to 3000 are"):
        tokenize_dataset(make_spec(tmp_path / "a.txt", ftfy=True), folder, report=quiet)


def test_a_long_document_has_the_split_of_its_whole_text(tmp_path, low_limits):
    splitter = Splitter(SPLITS, 7, None)
    for seed in range(8):
        (tmp_path / "a.txt").write_text(text := random_text(seed, 2_000), newline="")
        (document,) = read_all(tmp_path / "a.txt", low_limits)
        assert isinstance(document, LongDocument)
        assert splitter.split_of(document.pieces()) == splitter.split_of([text])


def test_a_document_that_cannot_be_cut_is_left_out_where_errors_are_skipped(tmp_path, make_spec, folder, low_limits):
    texts = ["one", "x" * (3 * LONG), "two", BODY]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    low_limits()
    sentence = r"a\.jsonl line 2: more than 6000 characters without a space .*split the document"
    with pytest.raises(DataError, match=sentence + r", or set `source\.on_error: skip`$"):
        tokenize_dataset(make_spec(tmp_path / "a.jsonl"), folder, report=quiet)
    assert left_behind(folder) == set()
    spec = make_spec(tmp_path / "a.jsonl", on_error="skip")
    trained = {"tokenizer": spec.tokenizer.model_validate({"train": "bpe", "vocab_size": 260})}
    for wanted in (spec, spec.model_copy(update=trained)):
        skipped = tokenize_dataset(wanted, folder, report=quiet).dropped.skipped
        assert skipped.count == 1 and re.match(f".*{sentence}$", skipped.samples[0])
        assert read_texts(folder) == ["one", "two", BODY]


def test_what_ftfy_cannot_mend_is_left_out_where_errors_are_skipped(tmp_path, make_spec, folder, low_limits):
    pytest.importorskip("ftfy")
    (tmp_path / "a.txt").write_text(BODY)
    (tmp_path / "b.txt").write_text("one")
    low_limits()
    manifest = tokenize_dataset(make_spec(tmp_path / "*.txt", ftfy=True, on_error="skip"), folder, report=quiet)
    assert manifest.dropped.skipped.count == 1 and read_texts(folder) == ["one"]


MEMORY_SCRIPT = """
import sys
from pathlib import Path
from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data.tokenize import tokenize_dataset
tokenizer, corpus, folder = sys.argv[1:]
source = {"kind": "files", "files": [corpus]}
spec = {"source": source, "tokenizer": {"file": tokenizer}, "splits": {"train": 1, "validation": 0, "test": 0}}
made = tokenize_dataset(DatasetSpec.model_validate(spec), DatasetFolder(Path(folder)), report=lambda line: None)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(made.splits["train"].tokens, int(peak.split()[1]) * 1024)
"""


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_memory_does_not_grow_with_the_size_of_a_document(tmp_path, byte_tokenizer, name):
    line = "some words of a text that goes on and on\n"

    def build(megabytes: int) -> tuple[int, int]:
        text = line * (megabytes * 1_000_000 // len(line))
        (tmp_path / name).write_text(text if name == "a.txt" else json.dumps({"text": text}))
        command = [sys.executable, "-c", MEMORY_SCRIPT, str(byte_tokenizer), str(tmp_path / name)]
        done = subprocess.run(
            [*command, str(tmp_path / f"of-{megabytes}")], capture_output=True, text=True, timeout=300, check=True
        )
        tokens, peak_bytes = map(int, done.stdout.split())
        assert tokens == len(text) + 1
        return tokens, peak_bytes

    small, large = build(24), build(96)
    assert large[1] - small[1] < 0.5 * (large[0] - small[0]), (small, large)
    assert large[1] < 1 << 30
