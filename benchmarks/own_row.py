"""One row of neox-train: the real ``neox-train train`` on a token store, followed through its metrics.jsonl."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rows import SIZES, Row
from neox_train.checkpoint.space import checkpoint_size_bytes
from neox_train.config.cluster import load_cluster
from neox_train.config.layout import RunFolder
from neox_train.config.run import resolve_files
from neox_train.config.run_file import write_run_config
from neox_train.files import free_bytes

_LOG_INTERVAL = 5
_VOCABULARY = 50257
"""Token ids of the rows that are large enough to ask for room."""


def measure_own(
    row: Row,
    *,
    store: Path,
    folder: Path,
    cluster: Path,
    warmup: int,
    steps: int,
    seconds: float,
    processes: int = 1,
) -> dict[str, Any]:
    """Tokens/s, peak memory and losses of ``row``; the training is ended once enough steps are logged.

    No checkpoint is written: a run of these few steps would spend most of its time on its last save.
    """
    folder.mkdir(parents=True)
    config = folder / "row.yml"
    # JSON is YAML.
    config.write_text(json.dumps(describe_row(row, store)))
    command, environment = _choose_command(config, RunFolder(folder / "run"), cluster, processes)
    log = folder / "log.txt"
    began = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        records: list[dict[str, Any]] = []
        while process.poll() is None and time.monotonic() - began < seconds:
            time.sleep(0.5)
            records = _read(folder / "run" / "metrics.jsonl")
            if records and records[-1]["step"] >= warmup + steps:
                break
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    told = [line for file in (log, *sorted((folder / "run" / "logs").glob("**/*_log.*"))) for line in _lines(file)]
    measured = [record for record in records if record["step"] > warmup]
    if not measured:
        return {"error": told[-15:]}
    return {
        "tokens_per_second": median(record["tokens_per_second"] for record in measured),
        "exposed_share": _share_exposed(measured),
        "seconds_per_step": median(record["seconds_per_step"] for record in measured),
        "peak_memory_gib": measured[-1]["peak_memory_gib"],
        "mfu": median(record["mfu"] for record in measured) if measured[0]["mfu"] is not None else None,
        "measured_steps": measured[-1]["step"] - warmup,
        "losses": {str(record["step"]): record["loss"] for record in records},
        "started_by": " ".join(command[1:4]),
        "told": [line for line in told if line.startswith(("precision", "FP8"))],
        "wall_seconds": round(time.monotonic() - began, 1),
    }


def _choose_command(
    config: Path, run: RunFolder, cluster: Path, processes: int
) -> tuple[list[str], dict[str, str] | None]:
    """What starts the training, and its environment: ``neox-train train`` where a checkpoint would fit on the disk."""
    facts = load_cluster(cluster).model_copy(update={"processes_per_node": processes})
    resolved = resolve_files([config], facts, overrides={"save": str(run.checkpoints), "load": str(run.checkpoints)})
    size = checkpoint_size_bytes(resolved.with_vocab_size(resolved.vocab_size or _VOCABULARY))
    if size < free_bytes(run.path) or processes > 1:
        command = [sys.executable, "-m", "neox_train.cli", "train", str(config), "--cluster", str(cluster)]
        return [*command, "--processes", str(processes), "--run-dir", str(run.path)], None
    write_run_config(run, resolved)
    variables = {name: str(value) for name, value in facts.environment.items()}
    return (
        [sys.executable, "-m", "benchmarks.own_child", str(run.path)],
        {**os.environ, "OMP_NUM_THREADS": str(facts.cpus_per_process), **variables},
    )


def _share_exposed(records: list[dict[str, Any]]) -> float:
    """Share of the time between two records in which rank 0 waited for collectives, the median; 0 for one process."""

    def read(record: dict[str, Any]) -> float:
        exposed = sum(kind["exposed_seconds"] for kind in record.get("communication", {}).values())
        return float(exposed / (record["seconds_per_step"] * _LOG_INTERVAL))

    return median(map(read, records))


def describe_row(row: Row, store: Path) -> dict[str, Any]:
    """The GPT-NeoX keys of a row."""
    size = SIZES[row.size]
    return {
        "num_layers": size.num_layers,
        "hidden_size": size.hidden_size,
        "num_attention_heads": size.num_attention_heads,
        "seq_length": size.seq_length,
        "max_position_embeddings": size.seq_length,
        "norm": "layernorm",
        "pos_emb": "rotary",
        "no_weight_tying": True,
        "bias_gelu_fusion": True,
        "init_method": "small_init",
        "output_layer_init_method": "wang_init",
        "precision": "bfloat16",
        "zero_optimization": {"stage": 1},
        "optimizer": {"type": "Adam", "params": {"lr": 2e-4, "betas": [0.9, 0.95], "eps": 1e-8}},
        "min_lr": 2e-5,
        "weight_decay": 0.1,
        "gradient_clipping": 1.0,
        "train_micro_batch_size_per_gpu": size.micro_batch,
        "train_iters": 1000,
        "lr_decay_iters": 1000,
        "checkpoint_factor": 1000,
        "eval_interval": 1000,
        "log_interval": _LOG_INTERVAL,
        "data_path": str(store),
        **row.changes,
    }


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.is_file() else []


def _read(metrics: Path) -> list[dict[str, Any]]:
    if not metrics.exists():
        return []
    lines = metrics.read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == "train"]
