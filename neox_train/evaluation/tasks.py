"""The tasks of an evaluation, each kept in its own file when done, so that a killed stage repeats only the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neox_train.data.store import TokenStore
from neox_train.evaluation.continuations import TEMPERATURE, write_continuations
from neox_train.evaluation.exported import load_exported_model
from neox_train.evaluation.held_out import HeldOut
from neox_train.evaluation.likelihood import METHOD, score_documents
from neox_train.evaluation.yardsticks import UNIGRAM_METHOD, XZ_METHOD, count_tokens, unigram_bits, xz_bytes
from neox_train.files import sha256_json, write_json

_CHUNK_TOKENS = 2**22
MAX_COUNTED_TOKENS = 2**31
"""Train tokens that the unigram model counts at most; the first of the split."""


@dataclass(frozen=True)
class EvaluationContext:
    """What every task may use; the model is loaded only when a task asks for it."""

    export: Path
    held_out: HeldOut
    train: TokenStore
    vocab_size: int
    seq_length: int
    continuations: int
    continuation_tokens: int
    seed: int

    @cached_property
    def model(self) -> Any:
        """The exported model."""
        return load_exported_model(self.export)


@dataclass(frozen=True)
class Task:
    """One evaluation: a function from the context to a JSON-able dict, and the context's settings that decide it."""

    evaluate: Callable[[EvaluationContext], dict[str, Any]]
    settings: tuple[str, ...] = ()

    def key(self, context: EvaluationContext, identity: Mapping[str, Any]) -> str:
        """Digest of everything that decides the result; a kept result with another key is made again."""
        return sha256_json({**identity, **{name: getattr(context, name) for name in self.settings}})


def evaluate_held_out(context: EvaluationContext) -> dict[str, Any]:
    """Loss, perplexity and bits a byte of the exported model on the held-out documents."""
    held_out = context.held_out
    likelihood = score_documents(
        context.model,
        held_out.documents(),
        eod_id=held_out.eod_id,
        seq_length=context.seq_length,
        vocab_size=context.vocab_size,
    )
    return {
        "loss": likelihood.loss,
        "perplexity": likelihood.perplexity,
        "bits_per_byte": likelihood.bits / held_out.num_bytes,
        "bits": likelihood.bits,
        "predicted_tokens": likelihood.tokens,
        "method": METHOD,
    }


def evaluate_unigram(context: EvaluationContext) -> dict[str, Any]:
    """Bits a byte of a unigram-token model on the same tokens."""
    held_out = context.held_out
    counted = min(context.train.num_tokens, MAX_COUNTED_TOKENS)
    train_counts = count_tokens(_read_chunks(context.train, counted), vocab_size=context.vocab_size)
    bits = unigram_bits(train_counts, count_tokens(held_out.documents(), vocab_size=context.vocab_size))
    return {
        "bits_per_byte": bits / held_out.num_bytes,
        "bits": bits,
        "counted_train_tokens": counted,
        "method": UNIGRAM_METHOD,
    }


def evaluate_xz(context: EvaluationContext) -> dict[str, Any]:
    """Bits a byte of ``xz -9`` on the same text."""
    size = xz_bytes(context.held_out.texts())
    return {
        "bits_per_byte": 8 * size / context.held_out.num_bytes,
        "compressed_bytes": size,
        "method": XZ_METHOD,
    }


def evaluate_continuations(context: EvaluationContext) -> dict[str, Any]:
    """A few sampled continuations of held-out prompts."""
    held_out = context.held_out

    def decode(tokens: Any) -> str:
        text: str = held_out.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    texts = write_continuations(
        context.model,
        held_out.store.document,
        decode,
        document_lengths=held_out.lengths,
        count=context.continuations,
        new_tokens=context.continuation_tokens,
        seq_length=context.seq_length,
        eod_id=held_out.eod_id,
        vocab_size=context.vocab_size,
        seed=context.seed,
    )
    return {"temperature": TEMPERATURE, "seed": context.seed, "texts": texts}


TASKS: Mapping[str, Task] = {
    "held_out": Task(evaluate_held_out, ("seq_length",)),
    "unigram": Task(evaluate_unigram),
    "xz": Task(evaluate_xz),
    "continuations": Task(evaluate_continuations, ("continuations", "continuation_tokens", "seq_length", "seed")),
}
"""Tasks by name, in the order they run."""


def run_tasks(
    tasks: Mapping[str, Task], context: EvaluationContext, folder: Path, *, identity: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Run the tasks that ``folder`` holds no valid result of, and answer with all results by name.

    ``identity`` names the export, the dataset and the documents. A result is kept the moment it is made; a damaged file
    counts as none.
    """
    results = {}
    for name, task in tasks.items():
        path, key = folder / f"{name}.json", task.key(context, identity)
        result = _kept_result(path, key)
        if result is None:
            result = task.evaluate(context)
            write_json(path, {"task": name, "key": key, "result": result})
        results[name] = result
    return results


def _kept_result(path: Path, key: str) -> dict[str, Any] | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("key") != key:
        return None
    result = kept.get("result")
    return result if isinstance(result, dict) else None


def _read_chunks(store: TokenStore, tokens: int) -> Iterator[np.ndarray]:
    for start in range(0, tokens, _CHUNK_TOKENS):
        yield store.read(start, min(start + _CHUNK_TOKENS, tokens))
