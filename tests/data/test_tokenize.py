import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data import batches
from neox_train.data.fast_encoder import FastEncoder, InexactEncodingError
from neox_train.data.manifest import load_manifest
from neox_train.data.tokenize import describe, tokenize_dataset
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError
from neox_train.locks import hold_lock

from .conftest import left_behind, read_texts

FINISHED = {"tokenizer.json", "tokens-train-00000.h5", "sources.json", "manifest.json", "tokenized.json"}


def write_corpus(path: Path, documents: int = 60) -> list[str]:
    random.seed(7)
    words = ["alpha", "beta", "gamma", "delta", "naïve", "日本", "🙂", "def f(x):\n\treturn x"]
    texts = [" ".join(random.choices(words, k=20)) + f" {index}" for index in range(documents)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return texts


def test_text_comes_back_exactly_with_its_counts(tmp_path, make_spec, build, folder):
    texts = write_corpus(tmp_path / "corpus.jsonl")
    manifest = build(make_spec(tmp_path / "corpus.jsonl"))
    assert read_texts(folder) == texts
    train = manifest.splits["train"]
    assert train.documents == len(texts)
    assert train.bytes == sum(len(text.encode()) for text in texts)
    assert train.tokens == train.bytes + len(texts)
    assert manifest.eod_id == 256 and manifest.vocab_size == 257 and manifest.dtype == "uint16"
    assert load_manifest(folder.path) == manifest
    assert left_behind(folder) == FINISHED


def test_lines_end_at_line_feeds_only(cases, make_spec, build, folder):
    path = cases / "06-line-separators.jsonl"
    manifest = build(make_spec(path))
    wanted = [json.loads(line)["text"] for line in path.read_bytes().split(b"\n") if line]
    assert len(wanted) == 4 and read_texts(folder) == wanted
    assert [len(text.encode()) for text in wanted] == [37, 35, 29, 30]
    assert manifest.splits["train"].bytes == 131


def test_empty_documents_are_dropped_and_counted(cases, make_spec, build, folder):
    manifest = build(make_spec(cases / "07-empty-first.jsonl"))
    assert read_texts(folder) == ["alpha beta", "gamma"]
    assert json.loads(folder.manifest.read_text())["dropped"]["empty_documents"] == 2
    assert manifest.splits["train"].documents == 2


@pytest.mark.parametrize(
    ("name", "source", "parts"),
    [
        ("07-all-empty.jsonl", {}, ["no document is left", "2 empty"]),
        ("07-other-key.jsonl", {"text_key": "text"}, ["07-other-key.jsonl line 1", "`text`", "`content`"]),
        ("08-pretty.jsonl", {}, ["08-pretty.jsonl line 1", "one JSON object a line"]),
        ("08-array.jsonl", {}, ["08-array.jsonl line 1", "one JSON object a line"]),
        ("08-pretty.jsonl", {"on_error": "skip"}, ["no document is left", "4 unreadable", "line 1"]),
        ("08-array.jsonl", {"on_error": "skip"}, ["no document is left", "1 unreadable", "line 1"]),
    ],
)
def test_unusable_input_is_one_sentence_and_leaves_nothing(cases, make_spec, build, folder, name, source, parts):
    with pytest.raises(DataError) as caught:
        build(make_spec(cases / name, **source))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(part in sentence for part in parts), sentence
    assert left_behind(folder) == set()


def test_skipped_lines_are_counted_and_sampled(tmp_path, make_spec, build, folder):
    lines = [b'{"text": "one"}', b"{broken", b'{"text": 3}', b'{"text": "\xff"}', b'{"text": "\\ud800"}', b"", b"[]"]
    (tmp_path / "corpus.jsonl").write_bytes(b"\n".join([*lines, b'{"text": "two"}']))
    manifest = build(make_spec(tmp_path / "corpus.jsonl", on_error="skip"))
    assert read_texts(folder) == ["one", "two"]
    assert manifest.dropped.skipped.count == 5 and manifest.dropped.blank_lines == 1
    places = [sample.split(": ")[0].rsplit(" ", 2)[1:] for sample in manifest.dropped.skipped.samples]
    assert places == [["line", "2"], ["line", "3"], ["line", "4"], ["line", "5"], ["line", "7"]]
    assert "; left out: 0 empty, 0 duplicate, 5 unreadable, the first: " in describe(manifest)


def test_special_tokens_in_text_are_text(tmp_path, make_spec, build, folder):
    text = "before <|endoftext|> after\x00"
    (tmp_path / "a.txt").write_text(text)
    build(make_spec(tmp_path / "a.txt"))
    assert read_texts(folder) == [text]


def test_repeating_does_nothing_and_says_so(tmp_path, make_spec, folder, build):
    write_corpus(tmp_path / "corpus.jsonl")
    spec = make_spec(tmp_path / "corpus.jsonl")
    manifest = build(spec)
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir() if path.name != ".lock"}
    lines: list[str] = []
    os.utime(tmp_path / "corpus.jsonl")
    assert tokenize_dataset(spec, folder, report=lines.append) == manifest
    assert len(lines) == 1 and "nothing to do" in lines[0]
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir() if path.name != ".lock"} == before


def test_a_lost_marker_alone_is_written_again(tmp_path, make_spec, folder, build):
    write_corpus(tmp_path / "corpus.jsonl")
    manifest = build(make_spec(tmp_path / "corpus.jsonl"))
    kept = FINISHED - {"tokenized.json"}
    before = {name: (folder.path / name).stat().st_mtime_ns for name in kept}
    folder.tokenized.unlink()
    build(make_spec(tmp_path / "corpus.jsonl"))
    assert json.loads(folder.tokenized.read_text())["digest"] == manifest.digest
    assert {name: (folder.path / name).stat().st_mtime_ns for name in kept} == before


def test_changed_content_is_rebuilt_though_size_and_time_are_the_same(tmp_path, make_spec, build, folder):
    corpus = tmp_path / "corpus.jsonl"
    texts = write_corpus(corpus)
    spec = make_spec(corpus)
    first = build(spec)
    stat = corpus.stat()
    corpus.write_bytes(corpus.read_bytes().replace(b"alpha", b"omega"))
    os.utime(corpus, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert build(spec).digest != first.digest
    assert read_texts(folder) == [text.replace("alpha", "omega") for text in texts]


@pytest.mark.parametrize("damage", ["delete", "cut", "tokenizer", "manifest", "sources"])
def test_a_damaged_dataset_is_rebuilt_to_the_same_bytes(tmp_path, make_spec, build, folder, damage):
    write_corpus(tmp_path / "corpus.jsonl")
    spec = make_spec(tmp_path / "corpus.jsonl")
    first = build(spec)
    shard = folder.shard("train", 0)
    match damage:
        case "delete":
            shard.unlink()
        case "cut":
            os.truncate(shard, 100)
        case "tokenizer":
            folder.tokenizer.write_text("{}")
        case "manifest":
            folder.manifest.write_text("{")
        case "sources":
            (folder.path / "sources.json").unlink()
    second = build(spec)
    assert second.digest == first.digest
    assert hashlib.sha256(shard.read_bytes()).hexdigest() == first.splits["train"].shards[0].sha256


def test_a_changed_spec_is_rebuilt(tmp_path, make_spec, build, folder):
    write_corpus(tmp_path / "corpus.jsonl")
    build(make_spec(tmp_path / "corpus.jsonl"))
    halves = {"train": 0.5, "validation": 0.25, "test": 0.25}
    manifest = build(make_spec(tmp_path / "corpus.jsonl", splits=halves))
    assert [split.documents for split in manifest.splits.values()] == [30, 15, 15]


def test_a_corpus_that_became_unusable_leaves_the_old_dataset(tmp_path, make_spec, build, folder):
    corpus = tmp_path / "corpus.jsonl"
    texts = write_corpus(corpus)
    spec = make_spec(corpus)
    build(spec)
    corpus.write_text("{broken\n")
    with pytest.raises(DataError, match=r"corpus\.jsonl line 1"):
        build(spec)
    assert read_texts(folder) == texts
    assert left_behind(folder) == FINISHED


def test_the_rest_of_a_killed_build_is_removed(tmp_path, make_spec, build, folder):
    write_corpus(tmp_path / "corpus.jsonl")
    rest = folder.path / ".building" / "tokens-train-00000.h5"
    rest.parent.mkdir(parents=True)
    rest.write_bytes(b"half")
    build(make_spec(tmp_path / "corpus.jsonl"))
    assert not rest.parent.exists()


def test_a_build_killed_while_it_writes_is_repeated_whole(tmp_path, make_spec, build, folder):
    line = json.dumps({"text": "some words of text, again and again " * 3}) + "\n"
    (tmp_path / "corpus.jsonl").write_text(line * 20_000)
    spec = make_spec(tmp_path / "corpus.jsonl")
    code = (
        "import sys; from pathlib import Path; from neox_train.config.layout import DatasetFolder;"
        "from neox_train.config.pipeline import DatasetSpec; from neox_train.data.tokenize import tokenize_dataset;"
        "tokenize_dataset(DatasetSpec.model_validate_json(sys.argv[1]), DatasetFolder(Path(sys.argv[2])))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, spec.model_dump_json(), str(folder.path)])
    deadline = time.monotonic() + 60
    while not any(folder.path.glob(".building/.tokens-*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not folder.manifest.exists() and (folder.path / ".building").exists()
    assert build(spec).splits["train"].documents == 20_000
    assert left_behind(folder) == FINISHED


def test_a_second_build_waits_for_the_first_and_takes_its_dataset(tmp_path, make_spec, build, folder):
    write_corpus(tmp_path / "corpus.jsonl")
    spec = make_spec(tmp_path / "corpus.jsonl")
    build(spec)
    lines: list[str] = []
    second = threading.Thread(target=tokenize_dataset, args=(spec, folder), kwargs={"report": lines.append})
    with hold_lock(folder.lock, note="the first build"):
        second.start()
        while not lines and second.is_alive():
            time.sleep(0.01)
    second.join()
    assert "waiting for" in lines[0] and "the first build" in lines[0]
    assert len(lines) == 2 and "nothing to do" in lines[1]


def test_a_trained_tokenizer_sees_the_train_split_only_and_repeats(tmp_path):
    texts = write_corpus(tmp_path / "corpus.jsonl", documents=40)
    spec = DatasetSpec.model_validate(
        {
            "source": {"kind": "files", "files": [str(tmp_path / "corpus.jsonl")]},
            "splits": {"train": 0.5, "validation": 0.25, "test": 0.25},
            "tokenizer": {"train": "bpe", "vocab_size": 320},
        }
    )
    folders = [DatasetFolder(tmp_path / name) for name in ("first", "second")]
    first, second = (tokenize_dataset(spec, folder, report=lambda line: None) for folder in folders)
    assert first.digest == second.digest and first.vocab_size == 320

    def train(texts: list[str]) -> str:
        return train_byte_level_bpe(texts, vocab_size=320, eod_token="<|endoftext|>").to_str(pretty=True) + "\n"

    train_texts = read_texts(folders[0])
    assert len(train_texts) == 20 and set(train_texts) < set(texts)
    assert folders[0].tokenizer.read_text() == train(train_texts) != train(texts)


def test_a_tokenizer_that_proves_inexact_in_the_middle_encodes_slowly_from_the_start(tmp_path, make_spec, folder):
    texts = write_corpus(tmp_path / "corpus.jsonl", documents=3000)
    spec = make_spec(tmp_path / "corpus.jsonl")
    wanted = tokenize_dataset(spec, DatasetFolder(tmp_path / "wanted"), report=lambda line: None)
    lines: list[str] = []
    calls = 0

    def encode(self, batch):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InexactEncodingError("other ids for 'x'")
        return real(self, batch)

    real = FastEncoder.encode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_BATCH_DOCUMENTS", 2000)
        patch.setattr(FastEncoder, "encode", encode)
        manifest = tokenize_dataset(spec, folder, report=lines.append)
    assert calls == 2 and manifest.digest == wanted.digest and read_texts(folder) == texts
    assert [line for line in lines if "warning: other ids for 'x'; the slower" in line]
