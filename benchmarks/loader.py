"""How fast windows come out of a token store, against a raw numpy memmap, and what opening a huge store costs.

    python benchmarks/loader.py [--million-tokens 256] [--work FOLDER]

Prints one JSON object. The huge store is sparse: its tokens take no room on disks that keep holes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from neox_train.data.manifest import Shard, Sources, Split, make_manifest
from neox_train.data.shards import DOCUMENT_OFFSETS, TOKENS, SplitWriter
from neox_train.data.store import TokenStore

SEQ_LENGTH = 2048
WINDOWS = 20_000
ROUNDS = 5
HUGE_SHARDS = 10
HUGE_SHARD_TOKENS = 10**9
HUGE_SHARD_DOCUMENTS = 10**6

OPEN = """
import json, sys, time
from pathlib import Path
import h5py, numpy, psutil
from neox_train.data.order import SampleOrder
from neox_train.data.store import TokenStore
from neox_train.data.windows import Windows
before = psutil.Process().memory_info().rss
began = time.perf_counter()
windows = Windows(TokenStore.open(Path(sys.argv[1]), "train"), 2048)
order = SampleOrder(len(windows), 1234)
windows.batch([order[sample] for sample in range(256)])
seconds = time.perf_counter() - began
rss = psutil.Process().memory_info().rss - before
print(json.dumps({"windows": len(windows), "open_and_256_samples_ms": 1000 * seconds, "memory_mb": rss / 1e6}))
"""


def write_store(folder: Path, tokens: int) -> Path:
    """A store of random tokens in documents of 1,000; returns its one shard."""
    writer = SplitWriter(
        lambda index: folder / f"tokens-train-{index:05d}.h5", vocab_size=50_000, eod_id=0, tokenizer_sha256="0" * 64
    )
    random = np.random.default_rng(0)
    block = 1_000_000
    for _ in range(tokens // block):
        ids = random.integers(1, 50_000, block, dtype=np.uint16)
        ids[999::1000] = 0
        writer.append_documents(ids, np.full(block // 1000, 1000), 0)
    write_manifest(folder, writer.finish())
    return folder / "tokens-train-00000.h5"


def write_manifest(folder: Path, split: Split) -> None:
    """A manifest of one split."""
    make_manifest(
        vocab_size=50_000,
        dtype="uint16",
        eod_token="<|endoftext|>",
        eod_id=0,
        tokenizer_sha256="0" * 64,
        splits={"train": split},
        sources=Sources(files=0, bytes=0, digest=""),
    ).write(folder)


def write_huge_store(folder: Path) -> None:
    """Ten shards of a billion tokens and a million documents each, every token a hole in the file."""
    folder.mkdir()
    shards = []
    offsets = np.linspace(0, HUGE_SHARD_TOKENS, HUGE_SHARD_DOCUMENTS + 1).astype("<i8")
    for index in range(HUGE_SHARDS):
        path = folder / f"tokens-train-{index:05d}.h5"
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.CONTIGUOUS)
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        with h5py.File(path, "w", locking=False) as file:
            space = h5py.h5s.create_simple((HUGE_SHARD_TOKENS,))
            h5py.h5d.create(file.id, TOKENS.encode(), h5py.h5t.py_create(np.dtype("<u2")), space, creation)
            file.create_dataset(DOCUMENT_OFFSETS, data=offsets)
        size = path.stat().st_size
        shards.append(
            Shard(file=path.name, sha256="", bytes=size, tokens=HUGE_SHARD_TOKENS, documents=HUGE_SHARD_DOCUMENTS)
        )
    totals = {"tokens": HUGE_SHARDS * HUGE_SHARD_TOKENS, "documents": HUGE_SHARDS * HUGE_SHARD_DOCUMENTS}
    write_manifest(folder, Split(shards=tuple(shards), **totals))


def measure_windows(shard: Path, folder: Path) -> dict[str, float]:
    """Windows a second, the best of some rounds taken in turn: the store's views, and slices of a numpy memmap."""
    store = TokenStore.open(folder, "train")
    with h5py.File(shard, "r", locking=False) as file:
        offset, length = file[TOKENS].id.get_offset(), file[TOKENS].shape[0]
    raw = np.memmap(shard, dtype="<u2", mode="r", offset=offset, shape=(length,))
    starts = np.random.default_rng(1).integers(0, length - SEQ_LENGTH - 1, WINDOWS).tolist()
    row = np.empty(SEQ_LENGTH + 1, dtype=np.int64)

    def time_store() -> float:
        began = time.perf_counter()
        for start in starts:
            row[:] = store.read(start, start + SEQ_LENGTH + 1)
        return WINDOWS / (time.perf_counter() - began)

    def time_memmap() -> float:
        began = time.perf_counter()
        for start in starts:
            row[:] = raw[start : start + SEQ_LENGTH + 1]
        return WINDOWS / (time.perf_counter() - began)

    time_memmap()
    rates = [(time_store(), time_memmap()) for _ in range(ROUNDS)]
    ours, numpys = max(rate for rate, _ in rates), max(rate for _, rate in rates)
    return {"store_windows_per_second": ours, "memmap_windows_per_second": numpys, "ratio": ours / numpys}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--million-tokens", type=int, default=256)
    parser.add_argument("--work", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        folder = Path(name)
        shard = write_store(folder, arguments.million_tokens * 10**6)
        windows = measure_windows(shard, folder)
        write_huge_store(folder / "huge")
        command = [sys.executable, "-c", OPEN, str(folder / "huge")]
        opened = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(ROUNDS)]
    best = min(opened, key=lambda record: record["open_and_256_samples_ms"])
    print(
        json.dumps({"cpus": os.cpu_count(), "load_average": os.getloadavg(), **windows, "huge_store": best}, indent=2)
    )


if __name__ == "__main__":
    main()
