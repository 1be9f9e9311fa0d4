"""How time and memory of the tokenize stage grow with the corpus.

    python benchmarks/growth.py [--megabytes 50 100 200 400] [--work FOLDER] [--picture growth.png]

Each corpus is Python source in JSON lines, pieces of 8,000 characters, every document numbered so that none comes
twice. Prints one JSON object: seconds, megabytes a second, and the peak of resident memory for each size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from itertools import cycle
from pathlib import Path

from neox_train.data.tokenizer_training import train_byte_level_bpe

PIECE_CHARACTERS = 8_000
STAGE = """
import json, sys, time
from pathlib import Path
import awkward, gigatoken, h5py
from neox_train.config.layout import DatasetFolder
from neox_train.config.pipeline import DatasetSpec
from neox_train.data.tokenize import tokenize_dataset
corpus, tokenizer, target = sys.argv[1:]
spec = DatasetSpec.model_validate(
    {"source": {"kind": "files", "files": [corpus]}, "tokenizer": {"file": tokenizer}}
)
began = time.perf_counter()
tokenize_dataset(spec, DatasetFolder(Path(target)), report=lambda line: None)
seconds = time.perf_counter() - began
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "peak_memory_mb": int(peak.split()[1]) * 1024 / 1e6}))
"""


def read_pieces() -> list[str]:
    """Pieces of the standard library's files."""
    pieces = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        pieces.extend(text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS))
    return pieces


def write_corpus(path: Path, pieces: list[str], megabytes: float) -> float:
    """Write JSON lines of about that size; returns the megabytes of text."""
    total = 0
    with open(path, "w") as stream:
        for number, piece in enumerate(cycle(pieces)):
            text = f"# {number}\n{piece}"
            stream.write(json.dumps({"text": text}) + "\n")
            total += len(text.encode())
            if total >= megabytes * 1e6:
                return total / 1e6
    raise AssertionError("the pieces never end")


def draw(records: list[dict[str, float]], path: Path) -> None:
    """Seconds and peak memory over the size of the corpus."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (time_axes, memory_axes) = pyplot.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    sizes = [record["megabytes"] for record in records]
    for axes, key, title in ((time_axes, "seconds", "seconds"), (memory_axes, "peak_memory_mb", "peak memory, MB")):
        values = [record[key] for record in records]
        axes.plot(sizes, values, marker="o")
        axes.set(xlabel="corpus, MB of text", ylabel=title, xlim=(0, None), ylim=(0, 1.1 * max(values)))
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, draw and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[50, 100, 200, 400])
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--picture", type=Path, default=None)
    arguments = parser.parse_args()
    records = []
    with tempfile.TemporaryDirectory(dir=arguments.work) as name:
        work = Path(name)
        pieces = read_pieces()
        tokenizer = work / "tokenizer.json"
        train_byte_level_bpe(pieces[:500], vocab_size=16_384, eod_token="<|endoftext|>").save(str(tokenizer))
        for megabytes in arguments.megabytes:
            size = write_corpus(work / "corpus.jsonl", pieces, megabytes)
            shutil.rmtree(work / "dataset", ignore_errors=True)
            command = [sys.executable, "-c", STAGE, work / "corpus.jsonl", tokenizer, work / "dataset"]
            record = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
            records.append({"megabytes": size, **record, "megabytes_per_second": size / record["seconds"]})
    if arguments.picture is not None:
        draw(records, arguments.picture)
    print(json.dumps({"cpus": os.cpu_count(), "load_average": os.getloadavg(), "sizes": records}, indent=2))


if __name__ == "__main__":
    main()
