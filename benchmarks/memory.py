"""Estimated and measured memory of real trainings on one GPU: ``python -m benchmarks.memory --output rows.jsonl ...``.

Every row (benchmarks/memory_rows.py) trains a few steps in a process of its own; several share the card as long as
their estimates fit together, since torch counts memory by process. One JSON line a row goes to ``--output``: the
estimate part by part, what was measured, and what other estimators say. ``--dry`` estimates only, on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.memory_pool import Job, run_jobs
from benchmarks.memory_rivals import list_rivals
from benchmarks.memory_rows import MemoryRow, find_rows, vocab_size
from benchmarks.token_store import write_store
from benchmarks.train_step import list_versions
from neox_train.config.cluster import Cluster, load_cluster
from neox_train.config.layout import RunFolder
from neox_train.config.run import resolve_files
from neox_train.config.run_file import write_run_config
from neox_train.errors import UserError
from neox_train.memory.estimate import MemoryEstimate, estimate_memory
from neox_train.memory.phases import PARTS
from neox_train.memory.plan import RankPlan, plan_stages

_GIB = 1 << 30
_TRAIN_TOKENS = 2_000_000
_HOST_BASE_GIB = 5.0
"""A training's process beside the fp32 weights that it draws on the host: libraries, CUDA, compile workers."""


def main() -> None:
    """Measure, or with ``--dry`` only estimate, the rows that the command line names."""
    arguments = _parse()
    began = time.monotonic()
    cluster = load_cluster(arguments.cluster).model_copy(update={"processes_per_node": 1})
    arguments.work.mkdir(parents=True, exist_ok=True)
    jobs, records = [], {}
    plans: dict[str, RankPlan] = {}
    for number, row in enumerate(find_rows(arguments.rows)):
        record: dict[str, Any] = {"row": row.name, "fitted": row.is_fitted, "commit": arguments.commit}
        record |= {"micro_batch": row.micro_batch, "seq_length": row.seq_length}
        try:
            job, plans[row.name], known = _prepare(row, number, cluster, arguments)
        except UserError as error:
            _write(arguments.output, {**record, "error": [str(error)]})
            continue
        records[row.name] = {**record, **known}
        jobs.append(job)
    if arguments.dry:
        for name, record in records.items():
            _write(arguments.output, {**record, "rivals_bytes": list_rivals(plans[name])})
        return
    versions = list_versions()
    for job, result in run_jobs(
        jobs,
        gpu_gib=arguments.gpu_gib,
        host_gib=arguments.host_gib,
        processes=arguments.processes,
        row_seconds=arguments.row_seconds,
        deadline=began + arguments.deadline_seconds,
        environment=_environment(cluster, arguments),
    ):
        # Asked late: DeepSpeed is imported while the first trainings run.
        rivals = list_rivals(plans[job.name])
        _write(arguments.output, {**records[job.name], "rivals_bytes": rivals, "versions": versions, **result})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="parts of row names; all without; `tiny` rehearses on a CPU")
    parser.add_argument("--output", type=Path, required=True, help="file for one JSON line a row")
    parser.add_argument("--work", type=Path, required=True, help="folder for stores, runs, logs and compiled kernels")
    parser.add_argument("--cluster", type=Path, default=Path("cluster_profiles/h200/cluster.yaml"))
    parser.add_argument("--commit", default="unknown", help="commit of the measured code, for the record")
    parser.add_argument("--steps", type=int, default=4, help="steps of each row")
    parser.add_argument("--gpu-gib", type=float, default=120, help="estimates that share the card add up to less")
    parser.add_argument("--host-gib", type=float, default=100, help="the same for host memory")
    parser.add_argument("--processes", type=int, default=9, help="trainings at once")
    parser.add_argument("--row-seconds", type=float, default=220, help="limit of one row")
    parser.add_argument("--deadline-seconds", type=float, default=480, help="limit of all rows")
    parser.add_argument("--dry", action="store_true", help="estimate only")
    return parser.parse_args()


def _prepare(
    row: MemoryRow, number: int, cluster: Cluster, arguments: argparse.Namespace
) -> tuple[Job, RankPlan, dict[str, Any]]:
    """The row's run folder with its config.yml, its plan, and what is known before it runs."""
    folder = arguments.work / f"{number:02d}-{row.name.replace('/', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    store = arguments.work / f"store-{vocab_size(row)}"
    if not arguments.dry:
        tokens = _TRAIN_TOKENS if vocab_size(row) > 1000 else 100_000
        write_store(store, vocab_size=vocab_size(row), train_tokens=tokens, validation_tokens=10_000)
    file = folder / "row.yml"
    keys = row.describe(store)
    # JSON is YAML.
    file.write_text(json.dumps(keys))
    run = RunFolder(folder / "run")
    places = {"save": str(run.checkpoints), "load": str(run.checkpoints)}
    config = resolve_files([file], cluster, overrides=places).with_vocab_size(vocab_size(row))
    write_run_config(run, config)
    (plan,) = plan_stages(config, cluster)
    estimate = estimate_memory(config, cluster)
    job = Job(
        name=row.name,
        run_folder=run.path,
        log=folder / "log.txt",
        result=folder / "result.json",
        steps=arguments.steps,
        gpu_gib=estimate.total / _GIB if cluster.device == "cuda" else 0.0,
        host_gib=_HOST_BASE_GIB + max(4 * estimate.parameters, sum(estimate.host.values())) / _GIB,
    )
    shown = {name: value for name, value in keys.items() if name != "data_path"}
    return job, plan, {"keys": shown, **_describe(estimate)}


def _describe(estimate: MemoryEstimate) -> dict[str, Any]:
    tensors = sum(estimate.parts[name] for name in PARTS)
    return {
        "parameters": estimate.parameters,
        "estimate_bytes": {**estimate.parts, "tensors": tensors, "total": estimate.total},
        "peak_phase": estimate.peak_phase,
        "phases_gib": {name: size / _GIB for name, size in estimate.phases.items()},
    }


def _environment(cluster: Cluster, arguments: argparse.Namespace) -> dict[str, str]:
    """What each training starts with: few threads each, and one folder of compiled kernels."""
    cores = os.cpu_count() or 1
    threads = max(1, cores // max(1, arguments.processes))
    folder = (arguments.work / "compiled").resolve()
    variables = {
        "OMP_NUM_THREADS": str(threads),
        "TORCHINDUCTOR_COMPILE_THREADS": str(2 * threads),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        **{name: str(value) for name, value in cluster.environment.items()},
    }
    if cluster.device == "cpu":
        variables["DS_ACCELERATOR"] = "cpu"
    return variables


def _write(output: Path, record: dict[str, Any]) -> None:
    with output.open("a") as file:
        file.write(json.dumps(record) + "\n")
    told = [record["row"]]
    if estimated := record.get("estimate_bytes"):
        tensors, total = estimated["tensors"] / _GIB, estimated["total"] / _GIB
        told.append(f"estimate {tensors:.2f} GiB of tensors, {total:.2f} GiB in all")
        if measured := record.get("measured", {}).get("max_memory_allocated_gib"):
            told.append(f"allocated {measured:.2f} GiB ({tensors / measured - 1:+.1%}) in {record['seconds']:.0f} s")
    if "error" in record:
        told.append(f"FAILED: {' / '.join(record['error'][:4])}")
    print(" | ".join(told), flush=True)


if __name__ == "__main__":
    main()
