"""Builds a results folder as two finished trainings leave it: every file a real one's shape, the figures plausible."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import yaml

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.files import make_folder, write_json

STEPS = 300
START = 1_760_000_000.0
DATASET = "stdlib"


def build_results(root: Path, runs: tuple[str, ...] = ("serial", "parallel")) -> Path:
    """Write the dataset and ``runs`` under ``root``; the second run was interrupted once."""
    build_dataset(DatasetFolder.of(root, DATASET))
    for index, name in enumerate(runs):
        build_run(RunFolder.of(root, name), index)
    return root


def build_dataset(folder: DatasetFolder) -> None:
    splits = {
        "train": {"documents": 1312, "tokens": 2_842_113, "bytes": 9_602_331, "shards": []},
        "validation": {"documents": 27, "tokens": 58_902, "bytes": 199_875, "shards": []},
        "test": {"documents": 28, "tokens": 58_011, "bytes": 197_794, "shards": []},
    }
    manifest = {
        "format_version": 1,
        "digest": "5c" * 32,
        "vocab_size": 4096,
        "dtype": "uint16",
        "eod_token": "<|endoftext|>",
        "eod_id": 0,
        "tokenizer_sha256": "7a" * 32,
        "splits": splits,
        "sources": {"files": 1391, "bytes": 10_411_231, "digest": "31" * 32},
        "dropped": {
            "empty_documents": 3,
            "duplicate_documents": 21,
            "blank_lines": 0,
            "skipped": {"count": 2, "samples": []},
        },
        "spec": {
            "source": {"kind": "python_stdlib", "max_bytes": 10_000_000},
            "tokenizer": {"train": "bpe", "vocab_size": 4096},
        },
    }
    write_json(make_folder(folder.path) / "manifest.json", manifest)


def build_run(folder: RunFolder, index: int) -> None:
    make_folder(folder.path)
    interrupted = index == 1
    folder.config_file.write_text(yaml.safe_dump(run_config(folder, index)), encoding="utf-8")
    lines = [json.dumps(record) for record in metrics_records(index)]
    folder.metrics.write_text("\n".join(lines) + "\n", encoding="utf-8")
    parts = {"weights": 0.0264, "gradients": 0.0264, "optimizer states": 0.0791, "activations": 0.214, "logits": 0.125}
    write_json(
        folder.memory_json,
        {
            "parts_gib": {**parts, "runtime": 0.31},
            "total_gib": sum(parts.values()) + 0.31,
            "budget_gib": 4.0,
            "fraction": 0.195,
            "verdict": "fits",
            "parameters": 7_087_104 + 4096 * index,
            "sentence": "fits",
            "remedies": [],
        },
    )
    write_json(
        folder.finished,
        {
            "run": folder.name,
            "step": STEPS,
            "train_iters": STEPS,
            "checkpoint": "checkpoints/step_00000300",
            "train_loss": 3.41 - 0.05 * index,
            "validation_loss": 3.52 - 0.06 * index,
            "consumed_samples": STEPS * 16,
            "consumed_tokens": STEPS * 16 * 256,
            "peak_memory_gib": 0.742 + 0.01 * index,
            "seconds": 108.4 + 7 * index,
        },
    )
    write_json(
        folder.parity,
        {"max_abs_difference": 3.1e-6, "mean_abs_difference": 2.2e-7, "tolerance": 1e-4, "within_tolerance": True},
    )
    write_json(folder.ledger, {"run": folder.name, "attempts": list(attempts(folder, interrupted))})
    write_json(folder.provenance, provenance(folder))
    write_json(folder.evaluation, evaluation(folder, index))


def run_config(folder: RunFolder, index: int) -> dict[str, Any]:
    return {
        "num_layers": 6,
        "hidden_size": 256,
        "num_attention_heads": 8,
        "seq_length": 256,
        "gpt_j_residual": bool(index),
        "no_weight_tying": True,
        "precision": "fp32",
        "world_size": 2,
        "zero_stage": 1,
        "train_batch_size": 16,
        "train_iters": STEPS,
        "lr": 0.001,
        "pos_emb": "rotary",
        "rotary_pct": 0.25,
        "save": f"results/runs/{folder.name}/checkpoints",
    }


def metrics_records(index: int) -> list[dict[str, Any]]:
    rng = random.Random(index)
    records: list[dict[str, Any]] = []
    for step in range(1, STEPS + 1):
        loss = 3.3 - 0.05 * index + 5.0 * math.exp(-step / 32) + 0.07 * rng.gauss(0, 1)
        warmup, progress = min(1.0, step / 30), step / STEPS
        slow = 0.6 if rng.random() < 0.02 else 1.0
        throughput = slow * (11_400 - 700 * index) * (1 + 0.03 * rng.gauss(0, 1))
        moment = START + step * 0.36 + (240 if index and step > 180 else 0)
        records.append(
            {
                "kind": "train",
                "step": step,
                "loss": loss,
                "lr": 1e-3 * warmup * (0.1 + 0.45 * (1 + math.cos(math.pi * progress))),
                "grad_norm": 0.4 + 2.2 * math.exp(-step / 20) + 0.08 * abs(rng.gauss(0, 1)),
                "loss_scale": 1.0,
                "skipped_steps": 0,
                "consumed_tokens": step * 4096,
                "tokens_per_second": 2 * throughput,
                "tokens_per_second_per_gpu": throughput,
                "mfu": None,
                "peak_memory_gib": 0.73,
                "time": moment,
            }
        )
        if step % 30 == 0:
            value = 3.42 - 0.06 * index + 5.0 * math.exp(-step / 32)
            records.append({"kind": "validation", "step": step, "loss": value, "time": moment})
    return records


def attempts(folder: RunFolder, interrupted: bool) -> list[dict[str, Any]]:
    ends = (
        [(180, "failed", "the launcher was killed"), (STEPS, "finished", "")]
        if interrupted
        else [(STEPS, "finished", "")]
    )
    records, first, moment = [], 1, START
    for number, (last, state, reason) in enumerate(ends, start=1):
        seconds = (last - first + 1) * 0.36 + 4
        records.append(
            {
                "number": number,
                "name": f"neox-{folder.name}",
                "executor": "local",
                "host": "laptop",
                "nodes": 1,
                "processes": 2,
                "folder": f"logs/attempt-{number}",
                "submitted": moment,
                "state": state,
                "job_id": str(4100 + number),
                "started": moment + 1.2,
                "ended": moment + 1.2 + seconds,
                "reason": reason,
                "first_step": first,
                "last_step": last,
            }
        )
        first, moment = last + 1, moment + seconds + 240
    return records


def provenance(folder: RunFolder) -> dict[str, Any]:
    return {
        "time": "2025-10-09T08:53:20+00:00",
        "command": f"neox-train submit {folder.name} --pipeline configs/pipelines/demo.yaml",
        "git": {
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "branch": "main",
            "dirty": True,
            "changed_files": 2,
        },
        "python": "3.11.9",
        "packages": {"neox-train": "0.1.0", "torch": "2.13.0", "deepspeed": "0.19.6", "transformers": "5.24.0"},
        "machine": {
            "host": "laptop",
            "os": "Debian GNU/Linux 12",
            "kernel": "Linux 6.1.0",
            "cpu": "A Processor @ 2.60GHz",
            "cpu_cores": 2,
            "memory_gib": 23.4,
            "gpus": [],
        },
        "profile": {"name": "local", "executor": "local", "device": "cpu"},
        "seeds": {"model_and_data": 1234},
        "digests": {"config": "ab" * 32, "dataset": "5c" * 32, "tokenizer": "7a" * 32},
        "earlier_attempts": [],
    }


_TEXTS = (
    (
        "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n        self._lock = ",
        "threading.Lock()\n        self._closed = False\n\n    def close(self):\n        return\n",
        "RLock()\n        self._waiters = collections.deque()\n\n    def acquire(self, blocking=True):\n",
    ),
    (
        '"""Unit tests for the <email> package & its friends.\n\nimport unittest\nfrom test import support\n\nclass ',
        "TestMessage(unittest.TestCase):\n    def test_get(self):\n        self.assertEqual(1, ",
        "TestBase(unittest.TestCase):\n    def setUp(self):\n        self.maxDiff = None\n",
    ),
)


def evaluation(folder: RunFolder, index: int) -> dict[str, Any]:
    loss, size, tokens = 3.5103 - 0.06 * index, 197_794, 58_011
    texts = [
        {
            "document": 3 * number,
            "first_token": 17,
            "prompt": prompt,
            "continuation": continuation,
            "ended": number == 1,
            "real_continuation": real,
        }
        for number, (prompt, continuation, real) in enumerate(_TEXTS)
    ]
    bits = loss * tokens / math.log(2)
    return {
        "format_version": 1,
        "export_sha256": "ef" * 32,
        "dataset_digest": "5c" * 32,
        "split": "test",
        "documents": 28,
        "bytes": size,
        "run": folder.name,
        "dataset": DATASET,
        "seq_length": 256,
        "note": None,
        "tasks": {
            "held_out": {
                "loss": loss,
                "perplexity": math.exp(loss),
                "bits_per_byte": bits / size,
                "bits": bits,
                "predicted_tokens": tokens,
                "method": "Each document is scored alone.",
            },
            "unigram": {
                "bits_per_byte": 2.731,
                "bits": 2.731 * size,
                "method": "Token frequencies of the train split.",
            },
            "xz": {"bits_per_byte": 1.842, "compressed_bytes": 45_542, "method": "Size of `xz -9`."},
            "continuations": {"temperature": 0.8, "seed": 1234, "texts": texts},
        },
    }
