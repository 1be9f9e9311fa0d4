"""Speed on several GPUs of one node, beside Megatron-Core's and beside what estimator and planner said before.

    python -m benchmarks.several_gpus 1-3B/dp1/bf16 1-3B/dp8/bf16 1-3B/dp8/megatron-bf16 --output rows.jsonl --work work

Rows are those of benchmarks/several_rows.py, each in processes of its own; one JSON line a row. What it prints has the
weak scaling against the row of one GPU of the same size and kind, where the file has that row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.own_row import describe_row, measure_own
from benchmarks.rows import SIZES, Row
from benchmarks.several_rows import SeveralRow, find_several
from benchmarks.token_store import write_store
from benchmarks.train_step import add_options, list_versions, run_peer
from neox_train.config.cluster import load_cluster
from neox_train.config.run import resolve_files
from neox_train.errors import UserError
from neox_train.memory.estimate import estimate_memory
from neox_train.memory.plan import plan_stages
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step

_GIB = 1 << 30
_TRAIN_TOKENS = 8_000_000


def main() -> None:
    """Measure the rows that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, rows="names of benchmarks/several_rows.py", row_seconds=240)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(arguments.rows):
        row = find_several(name)
        began = time.monotonic()
        result = _measure_peer(row, arguments) if row.peer else _measure_own(row, number, arguments)
        record = {"row": name, "gpus": row.gpus, "commit": arguments.commit, "versions": list_versions(), **result}
        with arguments.output.open("a") as output:
            output.write(json.dumps(record) + "\n")
        print(_tell(record, arguments.output), f"| took {time.monotonic() - began:.0f} s", flush=True)


def _measure_own(row: SeveralRow, number: int, arguments: argparse.Namespace) -> dict[str, Any]:
    size = SIZES[row.size]
    store = write_store(
        arguments.work / f"store-{size.vocab_size}",
        vocab_size=size.vocab_size,
        train_tokens=_TRAIN_TOKENS if size.hidden_size > 64 else 100_000,
        validation_tokens=200 * size.micro_batch * size.seq_length,
    )
    own = Row(name=row.name, size=row.size, changes=row.describe())
    folder = arguments.work / f"{number}-{row.name.replace('/', '-')}"
    try:
        predicted = _predict(own, row, store, arguments)
    except UserError as error:
        return {"error": [str(error)]}
    measured = measure_own(
        own,
        store=store,
        folder=folder,
        cluster=arguments.cluster,
        warmup=arguments.warmup,
        steps=arguments.steps,
        seconds=arguments.row_seconds,
        processes=row.gpus,
    )
    if "error" not in measured:
        measured["tokens_per_second_per_gpu"] = measured["tokens_per_second"] / row.gpus
    return {**predicted, **measured}


def _predict(own: Row, row: SeveralRow, store: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """What `neox-train estimate` and `plan` would say of the row."""
    cluster = load_cluster(arguments.cluster).model_copy(update={"processes_per_node": row.gpus})
    file = arguments.work / f"{row.name.replace('/', '-')}.yml"
    # JSON is YAML.
    file.write_text(json.dumps(describe_row(own, store)))
    config = resolve_files([file], cluster).with_vocab_size(SIZES[row.size].vocab_size)
    rates = read_rates(cluster, config.precision)
    step = predict_step(plan_stages(config, cluster), rates) if rates else None
    return {
        "estimated_gib": estimate_memory(config, cluster).measurable / _GIB,
        "predicted_tokens_per_second_per_gpu": step.tokens_per_second_per_gpu if step else None,
    }


def _measure_peer(row: SeveralRow, arguments: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={row.gpus}"]
    return run_peer([*command, "-m", "benchmarks.peers.megatron_ranks", row.name], arguments)


def _tell(record: dict[str, Any], output: Path) -> str:
    if "error" in record:
        return f"{record['row']} | FAILED: {' / '.join(record['error'][-6:])}"
    own = record["tokens_per_second_per_gpu"]
    told = [f"{record['row']} | {own:,.0f} tokens/s/GPU", f"{record['peak_memory_gib']:.1f} GiB"]
    size, _, kind = record["row"].partition("/")
    for line in output.read_text().splitlines():
        other = json.loads(line)
        if other["row"] == f"{size}/dp1/{kind.partition('/')[2]}" and "error" not in other and record["gpus"] > 1:
            told.append(f"{own / other['tokens_per_second_per_gpu']:.1%} of one GPU's")
    if (predicted := record.get("predicted_tokens_per_second_per_gpu")) is not None:
        told.append(f"planner {predicted / own - 1:+.1%}")
    if "estimated_gib" in record:
        told.append(f"estimate {record['estimated_gib'] / record['peak_memory_gib'] - 1:+.1%}")
        told.append(f"waiting for collectives {record['exposed_share']:.1%}")
    return " | ".join(told)


if __name__ == "__main__":
    main()
