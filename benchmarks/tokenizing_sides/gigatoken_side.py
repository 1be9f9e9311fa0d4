"""gigatoken's own rates: its file encoder, then texts that are in memory, at once (cold and warm) and in this project's
batches: CORPUS TOKENIZER.
"""

import json
import sys
import time
from pathlib import Path

import awkward  # noqa: F401
import gigatoken

BATCH_BYTES = 1 << 23
corpus, file = map(Path, sys.argv[1:])
content = json.loads(file.read_text())
content["added_tokens"] = []


def load() -> gigatoken.Tokenizer:
    """A tokenizer whose caches are empty."""
    return gigatoken.Tokenizer.from_json(json.dumps(content).encode())


paths = sorted(corpus.glob("*.jsonl"))
texts = [json.loads(line)["text"] for path in paths for line in path.read_bytes().splitlines()]
files, memory, pieces = load(), load(), load()
batches: list[list[str]] = [[]]
room = BATCH_BYTES
for text in texts:
    if room <= 0:
        batches.append([])
        room = BATCH_BYTES
    batches[-1].append(text)
    room -= len(text)
record: dict[str, float] = {}
cpu_record: dict[str, float] = {}
work = {
    "encode_files_cold": lambda: files.encode_files(gigatoken.gigatoken_rs.JsonlFileSource(paths)),
    "encode_files_warm": lambda: files.encode_files(gigatoken.gigatoken_rs.JsonlFileSource(paths)),
    "encode_batch_cold": lambda: memory.encode_batch(texts),
    "encode_batch_warm": lambda: memory.encode_batch(texts),
    "encode_8_mib_batches_cold": lambda: [pieces.encode_batch(batch) for batch in batches] and None,
}
for name, encode in work.items():
    began, busy = time.perf_counter(), time.process_time()
    encode()
    record[name], cpu_record[name] = time.perf_counter() - began, time.process_time() - busy
print(json.dumps({"seconds": record, "cpu_seconds": cpu_record}))
