"""Every ``gradient_compression`` against whole gradients: loss at the end and bytes sent, by two processes over gloo.

``python -m benchmarks.compression --dataset results/datasets/stdlib --output FILE.jsonl``. One small model on the demo
corpus, every method with every seed, one after another. Speed is not measured: both ranks share this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.ranks import run_as_ranks

_MODEL: dict[str, Any] = {
    "num_layers": 3,
    "hidden_size": 96,
    "num_attention_heads": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
    "pos_emb": "rotary",
    "rotary_pct": 0.25,
    "no_weight_tying": True,
    "warmup": 0.05,
    "lr_decay_style": "cosine",
    "train_batch_size": 8,
    "eval_interval": 10**6,
    "eval_iters": 16,
    "gradient_clipping": 0.0,
    "distributed_backend": "gloo",
}
_ADAM: dict[str, Any] = {"type": "Adam", "params": {"lr": 0.002, "betas": [0.9, 0.95], "eps": 1.0e-8}}
_LAMB: dict[str, Any] = {"type": "OneBitLamb", "params": {"lr": 0.02, "betas": [0.9, 0.999], "eps": 1.0e-8}}
_PAPER: dict[str, Any] = {"local_update_steps": 10, "local_update_start_step": 0, "local_update_momentum": 0.9}
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "bf16": {"gradient_compression": "bf16"},
    "fp16": {"gradient_compression": "fp16"},
    "sparse_gradients: auto": {"sparse_gradients": "auto"},
    "powersgd, rank 8": {"gradient_compression": "powersgd", "powersgd_rank": 8, "powersgd_start_step": 40},
    "local_update": {"gradient_compression": "local_update"},
    "local_update, the paper's outer step": {"gradient_compression": "local_update", **_PAPER},
    "onebit_adam": {"gradient_compression": "onebit_adam"},
    "zero_one_adam": {"gradient_compression": "zero_one_adam"},
    "LAMB, whole gradients": {"optimizer": {**_LAMB, "params": {**_LAMB["params"], "freeze_step": 10**6}}},
    "onebit_lamb": {"optimizer": _LAMB, "against": "LAMB, whole gradients"},
}


def main() -> None:
    """Train everything in two processes; print and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of `neox-train tokenize`")
    parser.add_argument("--output", type=Path, required=True, help="file for one JSON line a training")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        _train_all(arguments)
        return
    run_as_ranks("benchmarks.compression", 2)
    rows = [json.loads(line) for line in arguments.output.read_text().splitlines()]
    print("\n".join(compare(rows)))


def compare(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table: loss, difference to the reference, spread over seeds, bytes by the reference's."""
    lines = [
        "| Method | Validation loss | Against whole gradients | Spread of seeds | Bytes | Bytes of a late step |",
        "|---|---|---|---|---|---|",
    ]
    by_method: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_method.setdefault(row["method"], []).append(row)
    for method, own in by_method.items():
        reference = by_method[METHODS[method].get("against", "none")]
        loss, base = (mean(row["validation_loss"] for row in listed) for listed in (own, reference))
        losses = [row["validation_loss"] for row in own]
        spread = max(losses) - min(losses)
        sent, last = (mean(row[key] for row in own) / mean(row[key] for row in reference) for key in ("sent", "last"))
        lines.append(f"| `{method}` | {loss:.3f} | {loss - base:+.3f} | {spread:.3f} | {sent:.3f} | {last:.3f} |")
    return lines


def _train_all(arguments: argparse.Namespace) -> None:
    from neox_train.training.distributed import leave_at_exit, start_process_group

    context = start_process_group("gloo")
    for seed in arguments.seeds:
        for method in arguments.methods:
            row = _train(method, seed, arguments, context)
            if context.is_main:
                with arguments.output.open("a") as output:
                    output.write(json.dumps(row) + "\n")
                print(row, flush=True)
    leave_at_exit()


def _train(method: str, seed: int, arguments: argparse.Namespace, context: Any) -> dict[str, Any]:
    from neox_train.config.architecture import Architecture
    from neox_train.training.compression.seam import find_compression
    from neox_train.training.dataset import TrainingData
    from neox_train.training.engine import build_engine
    from neox_train.training.schedule import LearningRateSchedule
    from neox_train.training.step import measure_validation_loss, run_step

    config = _resolve(method, seed, arguments)
    data = TrainingData.open(config)
    config = config.with_vocab_size(data.vocab_size)
    engine, _ = build_engine(config, Architecture.from_config(config), context)
    schedule = LearningRateSchedule.from_config(config)
    batches: Iterator[Any] = data.train_batches(config, context, 0)
    sent = []
    for step in range(arguments.steps):
        context.traffic.take()
        run_step(engine, batches, lr=schedule.lr_at(step), context=context)
        compression = find_compression(engine)
        if compression and step == arguments.steps - 1:
            compression.finish_training()
        sent.append(sum(one["wire_bytes"] for one in context.traffic.take().values()))
    loss = measure_validation_loss(engine, data.validation_batches(config, context), context)
    engine.destroy()
    every = 10
    return {
        "method": method,
        "seed": seed,
        "steps": arguments.steps,
        "validation_loss": loss,
        "sent": sum(sent),
        "last": mean(sent[-every:]),
    }


def _resolve(method: str, seed: int, arguments: argparse.Namespace) -> Any:
    from neox_train.config.load import load_config
    from neox_train.config.support import require_trainable

    changes = {key: value for key, value in METHODS[method].items() if key != "against"}
    keys = {"optimizer": _ADAM, **_MODEL, **changes, "train_iters": arguments.steps, "seed": seed}
    keys |= {"data_path": str(arguments.dataset), "lr_decay_iters": arguments.steps}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.yml"
        # JSON is YAML.
        file.write_text(json.dumps(keys))
        config = load_config([file], world_size=2)
    require_trainable(config)
    return config


if __name__ == "__main__":
    main()
