"""Whether a row learns as well as another: real trainings on a real dataset, several seeds each, compared in the end.

``python -m benchmarks.quality 125M/bf16 125M/fp8-delayed --dataset FOLDER --output FILE.jsonl --work FOLDER``. The
first row is the one that the others are held against. Trainings run side by side: their speed is not measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.own_row import describe_row
from benchmarks.rows import find_row

_LAST_RECORDS = 10
"""Logged losses, each the mean of its interval, that make up the loss at the end."""


def main() -> None:
    """Train every row with every seed, print and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", help="SIZE/VARIANT of benchmarks/rows.py")
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of `neox-train tokenize`")
    parser.add_argument("--output", type=Path, required=True, help="file for one JSON line a training")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--cluster", type=Path, default=Path("cluster_profiles/h200/cluster.yaml"))
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--seq-length", type=int, default=1024)
    parser.add_argument("--side-by-side", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=500, help="limit of all trainings together")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    waiting = [(row, seed) for seed in arguments.seeds for row in arguments.rows]
    running: list[tuple[str, int, Path, subprocess.Popen[bytes]]] = []
    results: list[dict[str, Any]] = []
    while waiting or running:
        while waiting and len(running) < arguments.side_by_side:
            row, seed = waiting.pop(0)
            running.append((row, seed, *_start(row, seed, arguments)))
        time.sleep(0.5)
        for item in [one for one in running if one[3].poll() is not None or time.monotonic() > deadline]:
            running.remove(item)
            item[3].kill()
            result = _read(item[0], item[1], item[2], item[3].wait()) | {"commit": arguments.commit}
            results.append(result)
            with arguments.output.open("a") as output:
                output.write(json.dumps(result) + "\n")
            print(_tell(result), flush=True)
    for line in compare(results, arguments.rows):
        print(line, flush=True)


def compare(results: list[dict[str, Any]], rows: list[str]) -> list[str]:
    """One line a row: its loss at the end against the first row's, beside the spread of the first row's seeds."""
    ended = {row: [result for result in results if result["row"] == row and "loss" in result] for row in rows}
    reference = ended[rows[0]]
    if not reference:
        return [f"{rows[0]} has no result to compare with"]
    lines = []
    for part in ("loss", "validation_loss"):
        base = mean(result[part] for result in reference)
        spread = max(result[part] for result in reference) - min(result[part] for result in reference)
        lines.append(f"{part}: {rows[0]} {base:.4f}, spread of {len(reference)} seeds {spread:.4f}")
        for row in rows[1:]:
            if ended[row]:
                difference = mean(result[part] for result in ended[row]) - base
                lines.append(f"{part}: {row} {base + difference:.4f}, {difference:+.4f} against {rows[0]}")
    return lines


def _start(name: str, seed: int, arguments: argparse.Namespace) -> tuple[Path, subprocess.Popen[bytes]]:
    folder = arguments.work / f"{name.replace('/', '-')}-{seed}"
    folder.mkdir(parents=True)
    row = find_row(name)
    keys = describe_row(row, arguments.dataset) | {
        "seed": seed,
        "train_micro_batch_size_per_gpu": arguments.micro_batch,
        "seq_length": arguments.seq_length,
        "max_position_embeddings": arguments.seq_length,
        "train_iters": arguments.iterations,
        "lr_decay_iters": arguments.iterations,
        "lr_decay_style": "cosine",
        "warmup": 0.05,
        "eval_interval": arguments.iterations,
        "eval_iters": 20,
        "log_interval": 10,
    }
    file = folder / "row.yml"
    file.write_text(json.dumps(keys))
    command = [sys.executable, "-m", "neox_train.cli", "train", str(file), "--cluster", str(arguments.cluster)]
    command += ["--run-dir", str(folder / "run")]
    with (folder / "log.txt").open("w") as log:
        return folder, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _read(row: str, seed: int, folder: Path, code: int) -> dict[str, Any]:
    metrics = folder / "run" / "metrics.jsonl"
    records = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    trained = [record for record in records if record["kind"] == "train"]
    validated = [record["loss"] for record in records if record["kind"] == "validation"]
    if code or not validated:
        return {"row": row, "seed": seed, "error": (folder / "log.txt").read_text().splitlines()[-12:]}
    return {
        "row": row,
        "seed": seed,
        "loss": mean(record["loss"] for record in trained[-_LAST_RECORDS:]),
        "validation_loss": validated[-1],
        "peak_memory_gib": trained[-1]["peak_memory_gib"],
        "losses": {str(record["step"]): record["loss"] for record in trained},
    }


def _tell(result: dict[str, Any]) -> str:
    head = f"{result['row']} seed {result['seed']}"
    if "error" in result:
        return f"{head} FAILED: {' / '.join(result['error'][-5:])}"
    return f"{head}: loss {result['loss']:.4f}, validation {result['validation_loss']:.4f}"


if __name__ == "__main__":
    main()
