"""Gradient compression over slow links: two network namespaces as two nodes, trained to the same loss.

``python -m benchmarks.slow_link --dataset FOLDER --output FILE.json --work FOLDER`` needs root and iproute2. A pair of
veth devices joins the namespaces; a token bucket (``tc tbf``) on both ends sets the rate, and gloo's real sockets feel
it. The emulation has bandwidth and the bucket's queue, no distance. Every method is the real training loop of one
process a namespace. The target is the validation loss that ``none`` ends with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.slow_link_rows import draw_rows, find_target, make_row, tell_rows
from neox_train.config.layout import RunFolder
from neox_train.config.load import load_config, write_config
from neox_train.data.vocabulary import find_vocab_size

_POWER: dict[str, Any] = {"powersgd_rank": 8, "powersgd_start_step": 10}
_ONE_BIT: dict[str, Any] = {"gradient_clipping": 0.0}
_LAMB: dict[str, Any] = {"lr": 3e-2, "betas": [0.9, 0.999], "eps": 1e-8}
_NEVER = 10**6
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "bf16": {},
    "fp16": {},
    "powersgd": _POWER,
    "local_update": {},
    "onebit_adam": _ONE_BIT,
    "zero_one_adam": _ONE_BIT,
    "LAMB": {**_ONE_BIT, "optimizer": {"type": "OneBitLamb", "params": {**_LAMB, "freeze_step": _NEVER}}},
    "onebit_lamb": {**_ONE_BIT, "optimizer": {"type": "OneBitLamb", "params": _LAMB}},
    "auto": _POWER,
}
"""LAMB is what 1-bit LAMB is held against: whole gradients to the end."""
_EXACT = ("none", "bf16", "fp16")
_NODES = (("neox-a", "neox-va", "10.88.0.1"), ("neox-b", "neox-vb", "10.88.0.2"))
_RANK = "import sys; from neox_train.training.entry import train_rank; train_rank(sys.argv[1])"
_PORT = 29517
_EVERY = 5
"""Steps between validations, whose time is not counted."""


def main() -> None:
    """Train every method at every rate, write the rows, print a table and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset folder of `neox-train tokenize`")
    parser.add_argument("--output", type=Path, required=True, help="JSON file of the rows; a .png is drawn beside it")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--megabits", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--steps", type=int, default=60, help="of the exact methods; the others may take twice as many")
    parser.add_argument("--add", action="store_true", help="keep the rows that the output has")
    parser.add_argument("--seconds", type=float, default=1200, help="limit of all trainings together")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    rows = json.loads(arguments.output.read_text())["rows"] if arguments.add else []
    join_nodes()
    try:
        for megabits in arguments.megabits:
            limit_rate(megabits)
            for method in arguments.methods:
                if time.monotonic() > deadline:
                    print(f"{method} at {megabits} Mb/s: not run, the time is up", flush=True)
                    continue
                steps = arguments.steps if method in _EXACT else 2 * arguments.steps
                run = arguments.work / f"{megabits}-{method}"
                write_run(run, arguments.dataset, method, steps)
                train_on_both(run, max(1.0, deadline - time.monotonic()))
                records = [json.loads(line) for line in RunFolder(run).metrics.read_text().splitlines()]
                rows.append(make_row(method, megabits, records))
                print(f"{method} at {megabits} Mb/s: {rows[-1]['step_seconds']:.3f} s a step", flush=True)
    finally:
        part_nodes()
        target = find_target(rows)
        arguments.output.write_text(json.dumps({"target_loss": target, "rows": rows}, indent=1) + "\n")
    for line in tell_rows(rows, target):
        print(line)
    draw_rows(rows, target, arguments.output.with_suffix(".png"))


def write_run(folder: Path, dataset: Path, method: str, steps: int) -> None:
    """A run folder with the configuration of a small model at a learning rate that stays, for two replicas."""
    run = RunFolder(folder)
    overrides = {
        "data_path": str(dataset.resolve()),
        "save": str(run.checkpoints),
        "load": str(run.checkpoints),
        "hidden_size": 128,
        "num_attention_heads": 4,
        "seq_length": 64,
        "max_position_embeddings": 64,
        "zero_optimization": {"stage": 0},
        "flat_master_weights": False,
        "optimizer": {"type": "Adam", "params": {"lr": 3e-3, "betas": [0.9, 0.95], "eps": 1e-8}},
        "lr_decay_style": "constant",
        "warmup": 10 / steps,
        "train_micro_batch_size_per_gpu": 4,
        "train_iters": steps,
        "lr_decay_iters": steps,
        "checkpoint_factor": steps,
        "eval_interval": _EVERY,
        "eval_iters": 8,
        "log_interval": _EVERY,
        "gradient_compression": "none" if method == "LAMB" else method,
        **METHODS[method],
    }
    files = [Path("configs/demo/base.yml"), Path("configs/demo/serial.yml")]
    config = load_config(files, overrides=overrides, world_size=len(_NODES))
    folder.mkdir(parents=True, exist_ok=True)
    write_config(config.with_vocab_size(find_vocab_size(config)), run.config_file)


def train_on_both(run: Path, limit_seconds: float) -> None:
    """Train the run with one rank in each namespace; RuntimeError with the end of a log when one fails."""
    ranks = []
    for rank, (namespace, device, _) in enumerate(_NODES):
        variables = {
            "RANK": rank,
            "WORLD_SIZE": len(_NODES),
            "LOCAL_RANK": 0,
            "MASTER_ADDR": _NODES[0][2],
            "MASTER_PORT": _PORT,
            "GLOO_SOCKET_IFNAME": device,
            "DS_ACCELERATOR": "cpu",
        }
        command = ["ip", "netns", "exec", namespace, "env", *(f"{name}={value}" for name, value in variables.items())]
        with (run / f"rank-{rank}.log").open("w") as log:
            command += [sys.executable, "-W", "ignore", "-c", _RANK, str(run)]
            ranks.append(subprocess.Popen(command, stdout=log, stderr=log))
    try:
        codes = [rank.wait(timeout=limit_seconds) for rank in ranks]
    finally:
        for process in ranks:
            process.kill()
    for rank, code in enumerate(codes):
        if code:
            raise RuntimeError(f"rank {rank} of {run.name}: {(run / f'rank-{rank}.log').read_text()[-2000:]}")


def join_nodes() -> None:
    """Two namespaces, joined by a pair of devices."""
    part_nodes()
    (first, device, _), (second, other, _) = _NODES
    for namespace in (first, second):
        _call("ip", "netns", "add", namespace)
    _call("ip", "link", "add", device, "netns", first, "type", "veth", "peer", "name", other, "netns", second)
    for namespace, own, address in _NODES:
        _call("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", own)
        for name in (own, "lo"):
            _call("ip", "-n", namespace, "link", "set", name, "up")


def limit_rate(megabits: int) -> None:
    """Let both ends send no faster than this."""
    # The bucket holds 2 ms of the rate, and no less than a large segment.
    burst_bytes = max(128_000, megabits * 250)
    for namespace, device, _ in _NODES:
        rate = ["rate", f"{megabits}mbit", "burst", str(burst_bytes), "latency", "50ms"]
        _call("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf", *rate)


def part_nodes() -> None:
    """Remove the namespaces, and the devices with them, where they are there."""
    there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
    for namespace, _, _ in _NODES:
        if namespace in there:
            _call("ip", "netns", "delete", namespace)


def _call(*command: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(f"{' '.join(command)}: {answer.stderr.strip()}")


if __name__ == "__main__":
    main()
