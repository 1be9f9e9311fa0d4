"""The evaluation of a run: exact figures of a uniform model, the same file twice, only missing tasks done again."""

from __future__ import annotations

import json
import lzma
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import RunFolder
from neox_train.config.pipeline import EvaluationSpec
from neox_train.errors import UserError
from neox_train.evaluation.evaluate import evaluate_run
from neox_train.evaluation.tasks import TASKS, EvaluationContext, Task
from neox_train.files import read_json
from tests.evaluation.conftest import TEXTS, TinyDataset

SPEC = EvaluationSpec(split="test", continuations=2, continuation_tokens=8)


@pytest.fixture
def run(tmp_path: Path, export: Callable[..., Path]) -> RunFolder:
    folder = RunFolder.of(tmp_path, "tiny")
    export(folder.hf, uniform=True)
    return folder


def evaluate(run: RunFolder, dataset: TinyDataset, spec: EvaluationSpec = SPEC, **tasks: Any) -> dict[str, Any]:
    return evaluate_run(run, dataset.folder, spec, seq_length=32, seed=5, **tasks)


def test_figures_of_a_uniform_model(run: RunFolder, dataset: TinyDataset):
    scores = evaluate(run, dataset)
    tasks, vocab = scores["tasks"], dataset.manifest.vocab_size
    text = "".join(TEXTS["test"]).encode()
    tokens = dataset.manifest.splits["test"].tokens
    assert (scores["bytes"], scores["documents"]) == (len(text), len(TEXTS["test"]))
    assert tasks["held_out"]["predicted_tokens"] == tokens
    assert tasks["held_out"]["bits_per_byte"] == pytest.approx(tokens * math.log2(vocab) / len(text), rel=1e-6)
    assert tasks["held_out"]["perplexity"] == pytest.approx(vocab, rel=1e-5)
    assert tasks["xz"]["bits_per_byte"] == 8 * len(lzma.compress(text, preset=9)) / len(text)
    assert tasks["unigram"]["bits"] == pytest.approx(unigram_by_hand(dataset), rel=1e-9)
    assert tasks["unigram"]["counted_train_tokens"] == dataset.manifest.splits["train"].tokens
    assert len(tasks["continuations"]["texts"]) == 2
    assert read_json(run.evaluation) == scores


def unigram_by_hand(dataset: TinyDataset) -> float:
    def ids(split: str) -> list[int]:
        eod = dataset.manifest.eod_id
        return [token for text in TEXTS[split] for token in (*dataset.tokenizer.encode(text).ids, eod)]

    train = Counter(ids("train"))
    total = train.total() + dataset.manifest.vocab_size
    return sum(math.log2(total / (train[token] + 1)) for token in ids("test"))


def test_the_same_inputs_give_the_same_file(run: RunFolder, dataset: TinyDataset):
    evaluate(run, dataset)
    first = run.evaluation.read_bytes()
    for part in [run.evaluation, *run.evaluation_parts.iterdir()]:
        part.unlink()
    evaluate(run, dataset)
    assert run.evaluation.read_bytes() == first


def counting(calls: list[str], failing: str | None = None) -> dict[str, Task]:
    def wrap(name: str, task: Task) -> Task:
        def run_task(context: EvaluationContext) -> dict[str, Any]:
            if name == failing:
                raise KeyboardInterrupt
            calls.append(name)
            return task.evaluate(context)

        return replace(task, evaluate=run_task)

    return {name: wrap(name, task) for name, task in TASKS.items()}


def test_a_killed_evaluation_repeats_only_the_rest(run: RunFolder, dataset: TinyDataset):
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, dataset, tasks=counting(calls, failing="xz"))
    assert calls == ["held_out", "unigram"]
    assert not run.evaluation.exists()
    interrupted = evaluate(run, dataset, tasks=counting(calls))
    assert calls == ["held_out", "unigram", "xz", "continuations"]
    evaluate(run, dataset, tasks=counting(calls))
    assert len(calls) == 4
    for part in run.evaluation_parts.iterdir():
        part.unlink()
    assert evaluate(run, dataset) == interrupted


def test_another_export_or_setting_does_again_what_depends_on_it(
    run: RunFolder, dataset: TinyDataset, export: Callable[..., Path]
):
    calls: list[str] = []
    evaluate(run, dataset, tasks=counting([]))
    evaluate(run, dataset, SPEC.model_copy(update={"continuations": 1}), tasks=counting(calls))
    assert calls == ["continuations"]
    export(run.hf, seed=9)
    calls.clear()
    evaluate(run, dataset, tasks=counting(calls))
    assert calls == list(TASKS)


def test_a_damaged_part_is_made_again(run: RunFolder, dataset: TinyDataset):
    evaluate(run, dataset)
    (run.evaluation_parts / "xz.json").write_text('{"task": "xz", "ke', encoding="utf-8")
    calls: list[str] = []
    evaluate(run, dataset, tasks=counting(calls))
    assert calls == ["xz"]


def test_a_run_without_export_is_refused(tmp_path: Path, dataset: TinyDataset):
    with pytest.raises(UserError, match="holds no exported model"):
        evaluate(RunFolder.of(tmp_path, "other"), dataset)


def test_a_dataset_of_another_tokenizer_is_not_measured(run: RunFolder, dataset: TinyDataset):
    record = run.hf / "neox_train.json"
    record.write_text(json.dumps({"tokenizer_sha256": dataset.manifest.tokenizer_sha256}))
    evaluate(run, dataset)
    record.write_text(json.dumps({"tokenizer_sha256": "e" * 64}))
    with pytest.raises(UserError, match=r"trained with another tokenizer \(SHA-256 eeeeeeeeeeee\)"):
        evaluate(run, dataset)
