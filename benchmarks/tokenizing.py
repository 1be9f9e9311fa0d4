"""JSON lines to a token store, against a script around Hugging Face ``tokenizers``, datatrove, and gigatoken itself.

    python benchmarks/tokenize.py [--megabytes 360] [--vocab-size 16384] [--datatrove-python PYTHON] [--work FOLDER]

The corpus is the Python source of the standard library and the installed packages, one file a document. Every side runs
in a process of its own on the same files; its seconds leave out that process's imports, not the start of workers.
This project and gigatoken run three times in turn and their best counts, the slower peers once. A last run tells the
processor seconds of this project's parts. Prints one JSON object. The datatrove side needs an interpreter that has
datatrove. tokenize.py is this script under its stage's name, which the standard library has too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from neox_train.data.mmap_files import MmapTokens
from neox_train.data.store import TokenStore
from neox_train.data.tokenizer_training import train_byte_level_bpe

SIDES = Path(__file__).parent / "tokenizing_sides"
END = "<|endoftext|>"


def write_corpus(folder: Path, megabytes: float) -> tuple[int, list[str]]:
    """Two files of JSON lines; returns their bytes of text and the first 8 MB of texts."""
    roots = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    total, sample, seen = 0, [], set()
    with open(folder / "a.jsonl", "w") as first, open(folder / "b.jsonl", "w") as second:
        for path in (path for root in roots for path in sorted(root.rglob("*.py"))):
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            digest = hashlib.sha256(text.encode()).digest()
            if not text or digest in seen:
                continue
            seen.add(digest)
            (first if total < megabytes * 5e5 else second).write(json.dumps({"text": text}) + "\n")
            if total < 8e6:
                sample.append(text)
            total += len(text.encode())
            if total >= megabytes * 1e6:
                break
    return total, sample


def run_side(python: str, name: str, *arguments: object) -> dict[str, Any]:
    """The record that a side prints last."""
    command = [python, str(SIDES / f"{name}.py"), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{name} failed:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def compare_ids(store_folder: Path, prefix: Path) -> bool:
    """Whether store and .bin/.idx hold the same ids, document by document."""
    store, pair = TokenStore.open(store_folder, "train"), MmapTokens.open(prefix)
    ids = np.concatenate([pair[index] for index in range(len(pair))])
    return bool(
        np.array_equal(np.diff(store.document_offsets), pair.sizes)
        and np.array_equal(store.read(0, store.num_tokens), ids)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=360)
    parser.add_argument("--vocab-size", type=int, default=16_384)
    parser.add_argument("--datatrove-python", default=None)
    parser.add_argument("--work", type=Path, default=None)
    arguments = parser.parse_args()
    load_at_first = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        work = Path(name)
        (work / "corpus").mkdir()
        num_bytes, sample = write_corpus(work / "corpus", arguments.megabytes)
        tokenizer = work / "tokenizer.json"
        train_byte_level_bpe(sample, vocab_size=arguments.vocab_size, eod_token=END).save(str(tokenizer))
        ours, gigatokens = [], []
        for _ in range(3):
            ours.append(run_side(sys.executable, "neox_train_side", work / "corpus", tokenizer, work / "ours"))
            gigatokens.append(run_side(sys.executable, "gigatoken_side", work / "corpus", tokenizer))
        load_of_the_three = os.getloadavg()[0]
        profile = run_side(sys.executable, "profile_side", work / "corpus", tokenizer, work / "ours")
        seconds = {"neox-train": min(record["seconds"] for record in ours)}
        seconds["tokenizers, 2 processes, .bin/.idx"] = run_side(
            sys.executable, "tokenizers_side", work / "corpus", tokenizer, work / "pair"
        )["seconds"]
        equal = compare_ids(work / "ours", work / "pair")
        if arguments.datatrove_python:
            record = run_side(arguments.datatrove_python, "datatrove_side", work / "corpus", tokenizer, work / "trove")
            seconds["datatrove, 2 processes"] = record["seconds"]
    fast = {key: min(record["seconds"][key] for record in gigatokens) for key in gigatokens[0]["seconds"]}
    rates = {side: num_bytes / 1e6 / spent for side, spent in seconds.items()}
    print(
        json.dumps(
            {
                "cpus": os.cpu_count(),
                "load_average": {"at_first": load_at_first, "after_the_fast_sides": load_of_the_three},
                "megabytes_of_text": num_bytes / 1e6,
                "megabytes_per_second": rates,
                "times_faster": {side: rates["neox-train"] / rate for side, rate in rates.items()},
                "reading_alone_megabytes_per_second": num_bytes / 1e6 / min(record["reading_alone"] for record in ours),
                "gigatoken_megabytes_per_second": {key: num_bytes / 1e6 / spent for key, spent in fast.items()},
                "share_of_gigatoken": {key: spent / seconds["neox-train"] for key, spent in fast.items()},
                "cpu_seconds": {
                    "neox-train": min(record["cpu_seconds"] for record in ours),
                    **{key: min(record["cpu_seconds"][key] for record in gigatokens) for key in fast},
                },
                "profile": profile,
                "identical_ids": equal,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
