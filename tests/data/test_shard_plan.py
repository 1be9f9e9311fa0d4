import json
import os
from pathlib import Path

import pytest

from neox_train.config.layout import shard_name
from neox_train.config.pipeline import load_pipeline
from neox_train.data.manifest import load_manifest
from neox_train.data.shard_build import find_part
from neox_train.data.shard_plan import divide, find_plan, make_plan
from neox_train.data.sources import list_sources
from neox_train.data.store import TokenStore
from neox_train.data.tokenize import plan_dataset, tokenize_dataset, tokenize_shard
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.data.verification import verify_dataset
from neox_train.errors import ConfigError, DataError

SPLITS = {"train": 0.6, "validation": 0.2, "test": 0.2}


@pytest.fixture
def corpus(tmp_path: Path) -> list[Path]:
    """Five files of unlike size, with an empty document and an unreadable line."""
    files = []
    for number, documents in enumerate((3, 40, 1, 9, 30)):
        lines = [json.dumps({"text": f"file {number} document {place} " * (place + 1)}) for place in range(documents)]
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text("\n".join([*lines, '{"text": ""}', "{broken"]) + "\n")
    return files


def quiet(line: str) -> None:
    pass


def streams(folder, names=("train", "validation", "test")):
    stores = [TokenStore.open(folder.path, name) for name in names]
    return [(store.read(0, store.num_tokens).tolist(), store.document_offsets.tolist()) for store in stores]


@pytest.mark.parametrize(
    ("sizes", "shards", "wanted"),
    [
        ([1, 1, 1, 1], 2, [2, 2]),
        ([100, 1, 1, 1], 2, [1, 3]),
        ([1, 1, 1, 100], 2, [3, 1]),
        ([0, 0, 0], 3, [1, 1, 1]),
        ([5, 4, 3, 2, 1], 3, [1, 1, 3]),
        ([7], 1, [1]),
    ],
)
def test_neighbours_are_divided_by_bytes_and_nobody_goes_without(sizes, shards, wanted):
    assert divide(sizes, shards) == wanted


@pytest.mark.parametrize("shards", [2, 3, 5, 9])
@pytest.mark.parametrize("trained", [False, True])
def test_shards_hold_the_stream_of_the_undivided_dataset(tmp_path, corpus, make_spec, folder, shards, trained):
    spec = make_spec(*corpus, splits=SPLITS, on_error="skip")
    if trained:
        spec = spec.model_copy(update={"tokenizer": spec.tokenizer.model_validate({"train": "bpe", "vocab_size": 300})})
    whole = tokenize_dataset(spec, folder.part("whole"), report=quiet)
    divided = spec.model_copy(update={"shards": shards})
    plan_dataset(divided, folder, report=quiet)
    for shard in reversed(range(min(shards, len(corpus)))):
        tokenize_shard(divided, folder, shard, report=quiet)
    lines: list[str] = []
    manifest = tokenize_dataset(divided, folder, report=lines.append)
    assert len(lines) == 1, lines
    assert streams(folder) == streams(folder.part("whole"))
    assert manifest.tokenizer_sha256 == whole.tokenizer_sha256
    assert manifest.dropped == whole.dropped and manifest.dropped.skipped.count == 5
    assert manifest.sources == whole.sources
    assert len({Path(shard.file).parent for shard in manifest.shards()}) == min(shards, len(corpus))
    assert verify_dataset(folder.path) == []
    assert load_manifest(folder.path) == manifest


def test_what_is_there_is_not_made_again(corpus, make_spec, folder):
    spec = make_spec(*corpus, splits=SPLITS, on_error="skip").model_copy(update={"shards": 3})
    plan = make_plan(spec, folder, list_sources(spec.source), quiet)
    plan_dataset(spec, folder, report=quiet)
    tokenize_shard(spec, folder, 1, report=quiet)
    part = folder.generation(plan.key).path / shard_name(1)
    before = {file: file.stat().st_mtime_ns for file in part.iterdir()}
    first = tokenize_dataset(spec, folder, report=quiet)
    assert {file: file.stat().st_mtime_ns for file in part.iterdir()} == before
    os.truncate(folder.path / first.splits["train"].shards[0].file, 10)
    assert find_part(folder, plan, 0) is None
    lines: list[str] = []
    assert tokenize_dataset(spec, folder, report=lines.append).digest == first.digest
    assert [line for line in lines if "shard" in line and "of 3" in line] == [
        line for line in lines if "shard 0 of 3" in line
    ]
    assert {file: file.stat().st_mtime_ns for file in part.iterdir()} == before


def test_the_number_of_shards_alone_makes_no_finished_dataset_anew(corpus, make_spec, folder):
    spec = make_spec(*corpus, on_error="skip")
    first = tokenize_dataset(spec, folder, report=quiet)
    lines: list[str] = []
    divided = spec.model_copy(update={"shards": 4})
    plan_dataset(divided, folder, report=lines.append)
    tokenize_shard(divided, folder, 2, report=lines.append)
    assert tokenize_dataset(divided, folder, report=lines.append) == first
    assert len(lines) == 2 and all("up to date" in line for line in lines)


def test_a_changed_file_gets_a_plan_of_its_own_and_the_old_tokens_go_last(corpus, make_spec, folder):
    spec = make_spec(*corpus, splits=SPLITS, on_error="skip").model_copy(update={"shards": 2})
    old = tokenize_dataset(spec, folder, report=quiet)
    corpus[4].write_text('{"text": "all new"}\n')
    plan_dataset(spec, folder, report=quiet)
    assert verify_dataset(folder.path) == []
    new = tokenize_dataset(spec, folder, report=quiet)
    assert new.digest != old.digest
    assert not any((folder.path / shard.file).exists() for shard in old.shards())
    undivided = tokenize_dataset(spec.model_copy(update={"shards": 1, "seed": 5}), folder, report=quiet)
    assert {path.name for path in folder.path.glob("tokens-*")} == {shard.file for shard in undivided.shards()}


def test_a_file_that_changes_behind_the_plan_is_refused(corpus, make_spec, folder):
    spec = make_spec(*corpus, on_error="skip").model_copy(update={"shards": 2})
    plan_dataset(spec, folder, report=quiet)
    corpus[4].write_text('{"text": "all new"}\n')
    with pytest.raises(DataError, match=r"4\.jsonl changed since its shards were planned; repeat"):
        tokenize_shard(spec, folder, 1, report=quiet)
    with pytest.raises(DataError, match="2 shards, counted from 0; there is no shard 2"):
        tokenize_shard(spec, folder, 2, report=quiet)


def test_a_shard_without_a_plan_is_refused(corpus, make_spec, folder):
    with pytest.raises(DataError, match="not divided into shards; run `neox-train tokenize dataset --part plan`"):
        tokenize_shard(make_spec(*corpus), folder, 0, report=quiet)


def test_one_inexact_shard_has_all_encoded_by_tokenizers(tmp_path, corpus, make_spec, folder, monkeypatch):
    train_byte_level_bpe(["some words"] * 9, vocab_size=280, eod_token="<|endoftext|>").save(str(tmp_path / "t.json"))
    spec = make_spec(*corpus, on_error="skip", tokenizer=tmp_path / "t.json").model_copy(update={"shards": 3})
    plan = make_plan(spec, folder, list_sources(spec.source), quiet)
    plan_dataset(spec, folder, report=quiet)
    tokenize_shard(spec, folder, 0, report=quiet)
    tokenize_shard(spec, folder, 2, report=quiet)
    with monkeypatch.context() as patch:
        # The machine of one job lacks the library.
        patch.setitem(__import__("sys").modules, "gigatoken", None)
        tokenize_shard(spec, folder, 1, report=quiet)
    lines: list[str] = []
    tokenize_dataset(spec, folder, report=lines.append)
    assert "gigatoken was inexact in a shard" in lines[0]
    assert [find_part(folder, plan, shard).encoder for shard in range(3)] == ["tokenizers"] * 3
    assert find_plan(folder, plan.key) == plan


@pytest.mark.parametrize(
    ("source", "reason"),
    [("{kind: files, files: [a], max_bytes: 9}", "source.max_bytes counts"), ("{kind: python_stdlib}", "duplicates")],
)
def test_what_counts_over_the_whole_corpus_is_not_divided(tmp_path, source, reason):
    (tmp_path / "pipeline.yaml").write_text(
        f"datasets:\n  a:\n    source: {source}\n    tokenizer: {{file: t}}\n    shards: 2\n"
        "runs:\n  r: {config: [x], dataset: a}\n"
    )
    with pytest.raises(ConfigError, match=rf"pipeline\.yaml, line 2: datasets\.a\.shards is 2, but {reason}"):
        load_pipeline(tmp_path / "pipeline.yaml")
