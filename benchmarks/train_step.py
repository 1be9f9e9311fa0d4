"""Training speed of neox-train and its peers, each row in its own process: ``python -m benchmarks.train_step ROW...``.

A row is SIZE/VARIANT (benchmarks/rows.py). One JSON line a row goes to ``--output``; a row that fails says why and the
next one runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.own_row import measure_own
from benchmarks.rows import SIZES, Row, find_row
from benchmarks.token_store import write_store

_PACKAGES = ("torch", "deepspeed", "transformer-engine", "bitsandbytes", "transformers", "megatron-core")
_TRAIN_TOKENS = 8_000_000


def main() -> None:
    """Measure the rows that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rows="SIZE/VARIANT", row_seconds=180)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(arguments.rows):
        began = time.monotonic()
        row = find_row(name)
        result = _measure(row, number, arguments)
        record = {"row": name, "commit": arguments.commit, "versions": list_versions(), **result}
        with arguments.output.open("a") as output:
            output.write(json.dumps(record) + "\n")
        _say(name, result, time.monotonic() - began)


def add_options(parser: argparse.ArgumentParser, *, rows: str, row_seconds: float) -> None:
    """Options of a benchmark that measures rows one after another; ``rows`` says what names one."""
    parser.add_argument("rows", nargs="+", help=rows)
    parser.add_argument("--output", type=Path, required=True, help="file for one JSON line a row")
    parser.add_argument("--work", type=Path, required=True, help="folder for stores, runs and logs")
    parser.add_argument("--cluster", type=Path, default=Path("cluster_profiles/h200/cluster.yaml"))
    parser.add_argument("--commit", default="unknown", help="commit of the measured code, for the record")
    parser.add_argument("--warmup", type=int, default=20, help="steps before the measured ones")
    parser.add_argument("--steps", type=int, default=30, help="measured steps, at least")
    parser.add_argument("--row-seconds", type=float, default=row_seconds, help="limit of one row")


def _measure(row: Row, number: int, arguments: argparse.Namespace) -> dict[str, Any]:
    if row.peer is not None:
        return _measure_peer(row, arguments)
    size = SIZES[row.size]
    tokens = _TRAIN_TOKENS if size.hidden_size > 64 else 100_000
    store = write_store(
        arguments.work / f"store-{size.vocab_size}",
        vocab_size=size.vocab_size,
        train_tokens=tokens,
        validation_tokens=20 * size.micro_batch * size.seq_length,
    )
    folder = arguments.work / f"{number}-{row.name.replace('/', '-')}"
    return measure_own(
        row,
        store=store,
        folder=folder,
        cluster=arguments.cluster,
        warmup=arguments.warmup,
        steps=arguments.steps,
        seconds=arguments.row_seconds,
    )


def _measure_peer(row: Row, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.peers.loop", str(row.peer), row.size]
    command += ["--fp8"] * row.fp8 + ["--recompute"] * row.recompute
    return run_peer(command, arguments)


def run_peer(command: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """The JSON object that a peer prints, its steps being the benchmark's; or its last lines as ``error``."""
    command = [*command, "--warmup", str(arguments.warmup), "--steps", str(arguments.steps)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.row_seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"error": [f"no result within {arguments.row_seconds} s"]}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": done.stderr.strip().splitlines()[-15:]}
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def list_versions() -> dict[str, str]:
    """Installed versions of the packages that a row depends on."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _say(name: str, result: dict[str, Any], seconds: float) -> None:
    if "error" in result:
        told = f"FAILED: {' / '.join(result['error'][-6:])}"
    else:
        told = f"{result['tokens_per_second']:,.0f} tokens/s | {result['peak_memory_gib']:.1f} GiB"
    print(f"{name} | {told} | took {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
