"""Processor seconds of every part of this project's tokenize stage: CORPUS TOKENIZER TARGET.

Each part's own thread is counted while it is in the part; what is left of the process's seconds is gigatoken's threads
and the interpreter between the parts.
"""

import functools
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import awkward  # noqa: F401
import gigatoken  # noqa: F401
import h5py  # noqa: F401

from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data import build, encoding, fast_encoder, fingerprinting, shards
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.tokenizer import TextTokenizer

PARTS: list[tuple[Any, str, str]] = [
    (build, "make_tokenizer", "loading the tokenizers"),
    (fast_encoder, "_load", "loading the tokenizers"),
    (fast_encoder.FastEncoder, "_compare", "comparing samples with tokenizers"),
    (TextTokenizer, "refuse_end_of_document", "end-of-document tokens, narrowing"),
    (encoding, "close_documents", "end-of-document tokens, narrowing"),
    (encoding, "_append", "writing"),
    (fingerprinting, "_hash", "checksums of the sources"),
    (shards._RawShard, "finish", "finishing the shard: HDF5, flush, checksum"),
]
busy: Counter[str] = Counter()


@contextmanager
def count(part: str) -> Iterator[None]:
    """Add this thread's processor seconds within the block."""
    began = time.thread_time()
    try:
        yield
    finally:
        busy[part] += time.thread_time() - began


def watch(owner: Any, name: str, part: str) -> None:
    """Replace a function by itself, counted."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def counted(*arguments: Any, **options: Any) -> Any:
        with count(part):
            return function(*arguments, **options)

    setattr(owner, name, counted)


def watch_reading() -> None:
    """The same for the generator that reads."""
    make_batches = encoding.make_batches

    def counted(*arguments: Any) -> Iterator[Any]:
        batches = make_batches(*arguments)
        while True:
            with count("reading, JSON"):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    encoding.make_batches = counted  # type: ignore[assignment]


corpus, tokenizer, target = sys.argv[1:]
for owner, name, part in PARTS:
    watch(owner, name, part)
watch_reading()
shutil.rmtree(target, ignore_errors=True)
spec = DatasetSpec.model_validate(
    {
        "source": {"kind": "files", "files": [corpus]},
        "splits": {"train": 1.0, "validation": 0.0, "test": 0.0},
        "tokenizer": {"file": tokenizer},
    }
)
began, cpu_began = time.perf_counter(), time.process_time()
tokenize_dataset(spec, DatasetFolder(Path(target)), report=lambda line: None)
seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
parts = dict(busy) | {"gigatoken's threads and the rest": cpu_seconds - busy.total()}
print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "parts": parts}))
