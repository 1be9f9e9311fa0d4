"""Two processes around Hugging Face tokenizers, one writer of .bin/.idx as Megatron's: CORPUS TOKENIZER PREFIX."""

import json
import multiprocessing
import struct
import sys
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

END = "<|endoftext|>"


def start(path: str) -> None:
    """Load the tokenizer once a process."""
    global tokenizer, end
    tokenizer = Tokenizer.from_file(path)
    end = tokenizer.token_to_id(END)
    tokenizer.encode_special_tokens = True


def encode(line: bytes) -> bytes:
    """Ids of a line's text, closed."""
    return np.array([*tokenizer.encode(json.loads(line)["text"]).ids, end], dtype=np.uint16).tobytes()


def lines(corpus: Path):
    """Every line of every file."""
    for path in sorted(corpus.glob("*.jsonl")):
        with open(path, "rb") as stream:
            yield from stream


if __name__ == "__main__":
    corpus, file, prefix = sys.argv[1:]
    began = time.perf_counter()
    sizes = []
    with multiprocessing.Pool(2, start, (file,)) as pool, open(prefix + ".bin", "wb") as tokens:
        for ids in pool.imap(encode, lines(Path(corpus)), 25):
            tokens.write(ids)
            sizes.append(len(ids) // 2)
    lengths = np.array(sizes, dtype="<i4")
    pointers = np.concatenate([[0], np.cumsum(lengths[:-1], dtype=np.int64) * 2]).astype("<i8")
    with open(prefix + ".idx", "wb") as index:
        index.write(struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, 8, len(sizes), len(sizes) + 1))
        index.write(lengths.tobytes() + pointers.tobytes() + np.arange(len(sizes) + 1, dtype="<i8").tobytes())
    print(json.dumps({"seconds": time.perf_counter() - began}))
