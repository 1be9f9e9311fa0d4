"""Bytes of the word embeddings' gradient, rows against the whole matrix, over vocabularies and tokens of a step.

``python -m benchmarks.sparse_gradients --work FOLDER --output FILE.json``. Tokenizers of every vocabulary are trained
on the demo corpus; two processes over gloo take real batches of it, and the traffic meter counts what they send.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.ranks import run_as_ranks

_CHOICES: dict[str, Any] = {"whole": False, "rows": True, "auto": "auto"}
_HIDDEN = 64
_RANKS, _STEPS = 2, 2
_MICRO_BATCH_TOKENS = 1024
"""Of a rank at a time, so that the logits of large vocabularies stay small."""


def main() -> None:
    """Count every case in two processes; write the rows, print a table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for the datasets")
    parser.add_argument("--output", type=Path, required=True, help="JSON file of the rows; a .png is drawn beside it")
    parser.add_argument("--vocabularies", type=int, nargs="+", default=[4096, 16384, 50304])
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 1024, 4096, 16384], help="of a step, all ranks")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        _count_all(arguments)
        return
    for size in arguments.vocabularies:
        _make_dataset(arguments.work, size)
    run_as_ranks("benchmarks.sparse_gradients", _RANKS)
    rows = json.loads(arguments.output.read_text())
    print("\n".join(tell_rows(rows)))
    draw_rows(rows, arguments.output.with_suffix(".png"))


def tell_rows(rows: list[dict[str, Any]]) -> list[str]:
    """A Markdown table."""
    lines = [
        "| Vocabulary | Tokens a step | Rows touched | `true` against whole | `auto` sends |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        sends = "rows" if row["auto"] < row["whole"] - 1 else "the whole matrix"
        share = row["rows"] / row["whole"] - 1
        lines.append(f"| {row['vocabulary']:,} | {row['tokens']:,} | {row['touched']:.1%} | {share:+.0%} | {sends} |")
    return lines


def draw_rows(rows: list[dict[str, Any]], file: Path) -> None:
    """Bytes by those of the whole matrix over tokens a step, one line a vocabulary."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(6.4, 3.8))
    for vocabulary in sorted({row["vocabulary"] for row in rows}):
        own = [row for row in rows if row["vocabulary"] == vocabulary]
        tokens = [row["tokens"] for row in own]
        (line,) = panel.plot(
            tokens, [row["rows"] / row["whole"] for row in own], marker="o", label=f"{vocabulary:,}, true"
        )
        panel.plot(
            tokens,
            [row["auto"] / row["whole"] for row in own],
            linestyle=":",
            color=line.get_color(),
            label=f"{vocabulary:,}, auto",
        )
    panel.axhline(0.1, color="grey", linewidth=0.8, linestyle="--")
    panel.set_xscale("log", base=2)
    panel.set_xlabel("tokens a step, all ranks")
    panel.set_ylabel("bytes by those of the whole gradient")
    panel.set_ylim(0, 1.1)
    panel.legend(fontsize=8, title="vocabulary")
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _make_dataset(work: Path, vocabulary: int) -> None:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import load_pipeline
    from neox_train.data.tokenize import tokenize_dataset

    dataset = {
        "source": {"kind": "python_stdlib", "max_bytes": 10_000_000},
        "splits": {"train": 0.96, "validation": 0.02, "test": 0.02},
        "tokenizer": {"train": "bpe", "vocab_size": vocabulary},
        "end_of_document": "<|endoftext|>",
        "seed": 1234,
    }
    run = {"config": [str(Path("configs/demo/base.yml").resolve()), str(Path("configs/demo/serial.yml").resolve())]}
    work.mkdir(parents=True, exist_ok=True)
    file = work / f"{vocabulary}.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"datasets": {"corpus": dataset}, "runs": {"one": {**run, "dataset": "corpus"}}}))
    tokenize_dataset(load_pipeline(file).dataset("corpus"), DatasetFolder(work / str(vocabulary)), report=print)


def _count_all(arguments: argparse.Namespace) -> None:
    from neox_train.training.distributed import leave_at_exit, start_process_group

    context = start_process_group("gloo")
    rows = []
    for vocabulary in arguments.vocabularies:
        for tokens in arguments.tokens:
            row: dict[str, Any] = {"vocabulary": vocabulary, "tokens": tokens}
            sent = {}
            for name, choice in _CHOICES.items():
                sent[name], size = _count(arguments.work / str(vocabulary), tokens, choice, context)
            # Everything but the embeddings travels whole in every case.
            matrix = size["rows"] * _HIDDEN * 4
            rest = sent["whole"] - matrix
            row |= {name: count - rest for name, count in sent.items()}
            row["touched"] = (row["rows"] - size["rows"]) / matrix
            rows.append(row)
            if context.is_main:
                print(row, flush=True)
                arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    leave_at_exit()


def _count(dataset: Path, tokens: int, choice: Any, context: Any) -> tuple[float, dict[str, int]]:
    """Mean bytes that a rank sends in a step, and the rows of the embeddings."""
    from neox_train.config.architecture import Architecture
    from neox_train.config.load import load_config
    from neox_train.training.dataset import TrainingData
    from neox_train.training.engine import build_engine
    from neox_train.training.step import run_step

    own = tokens // _RANKS
    length = min(own, 256)
    micro_batch = min(own, _MICRO_BATCH_TOKENS) // length
    keys = {
        "num_layers": 1,
        "hidden_size": _HIDDEN,
        "num_attention_heads": 2,
        "seq_length": length,
        "max_position_embeddings": length,
        "pos_emb": "rotary",
        "no_weight_tying": True,
        "make_vocab_size_divisible_by": 1,
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": own // (micro_batch * length),
        "train_iters": _STEPS,
        "optimizer": {"type": "Adam", "params": {"lr": 0.001}},
        "distributed_backend": "gloo",
        "data_path": str(dataset),
        "sparse_gradients": choice,
    }
    file = dataset / f"run-{context.rank}.yml"
    file.write_text(json.dumps(keys))
    config = load_config([file], world_size=_RANKS)
    data = TrainingData.open(config)
    config = config.with_vocab_size(data.vocab_size)
    engine, _ = build_engine(config, Architecture.from_config(config), context)
    batches = data.train_batches(config, context, 0)
    sent = []
    for _ in range(_STEPS):
        context.traffic.take()
        run_step(engine, batches, lr=0.001, context=context)
        sent.append(sum(one["wire_bytes"] for one in context.traffic.take().values()))
    engine.destroy()
    return mean(sent), {"rows": config.padded_vocab_size or 0}


if __name__ == "__main__":
    main()
