"""One rank of the distributed checkpoint tests: runs a list of tasks with the real model on a real engine.

Started with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT set; the argument is a JSON file of tasks. Rank 0
writes what it saw beside it: losses as text that reads back equal, and digests of every weight and state.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import deepspeed
import deepspeed.ops
import numpy as np
import torch

from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.deepspeed import deepspeed_json
from neox_train.config.load import load_config
from neox_train.errors import UserError
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import initialise

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = [CASES / "base.yml", CASES / "optimizer.yml"]
VOCAB_SIZE = 251
"""Not a multiple of the padding, so that padding rows exist."""
SAMPLES = 4


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    config = load_task_config(task)
    engine, model = build_engine(config)
    state = TrainerState()
    seen: dict[str, Any] = {"losses": [], "draws": []}
    if task.get("restore"):
        try:
            state = restore_checkpoint(Path(task["restore"]), engine=engine, model=model, config=config)
        except UserError as error:
            return {"error": type(error).__name__, "sentence": str(error)}
        seen["restored"] = digest_engine(engine, model)
        seen["trainer"] = state.to_dict()
    for _ in range(task.get("steps", 0)):
        state.step += 1
        seen["losses"].append(train_step(engine, state))
        seen["draws"].append([torch.rand(()).item(), float(np.random.rand()), random.random(), random.gauss(0, 1)])
        if state.step in task.get("save_at", []):
            state.consumed_samples = state.step * SAMPLES
            digests = {"config": config.training_digest(), "dataset": "d" * 64, "tokenizer": "t" * 64}
            try:
                root = Path(task["root"])
                save_checkpoint(root, engine=engine, model=model, config=config, trainer=state, digests=digests)
            except UserError as error:
                seen.setdefault("errors", []).append([type(error).__name__, str(error)])
    seen["final"] = digest_engine(engine, model)
    seen["counters"] = [engine.global_steps, engine.micro_steps, engine.global_samples, engine.skipped_steps]
    seen["optimizer"] = type(engine.optimizer).__name__
    seen["padding_is_zero"] = not model.word_embeddings.weight[VOCAB_SIZE:].any().item()
    engine.destroy()
    return seen


def load_task_config(task: dict[str, Any]) -> Any:
    world_size = int(os.environ["WORLD_SIZE"])
    overrides = {"train_micro_batch_size_per_gpu": SAMPLES // world_size, "train_iters": 20, **task["overrides"]}
    return load_config(FILES, overrides=overrides, world_size=world_size).with_vocab_size(VOCAB_SIZE)


def build_engine(config: Any) -> tuple[Any, GPTNeoX]:
    architecture = Architecture.from_config(config)
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(7 + int(os.environ["RANK"]))
    model = GPTNeoX(architecture)
    initialise(model, architecture, config.seed)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=build_optimizer(config, groups), config=deepspeed_json(config)
    )
    return engine, model


def build_optimizer(config: Any, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    if not config.use_bnb_optimizer:
        return torch.optim.AdamW(groups, lr=1e-3)
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit(groups, lr=1e-3)


def train_step(engine: Any, state: TrainerState) -> str:
    """One update on tokens that depend on the step alone; the loss of this rank as exact text."""
    generator = torch.Generator().manual_seed(1000 + state.step)
    tokens = torch.randint(0, VOCAB_SIZE, (SAMPLES, 65), generator=generator)
    share = tokens.chunk(int(os.environ["WORLD_SIZE"]))[int(os.environ["RANK"])]
    loss = engine(share[:, :-1], share[:, 1:])
    engine.backward(loss)
    engine.step()
    return float(loss.detach()).hex()


def digest_engine(engine: Any, model: torch.nn.Module) -> dict[str, str]:
    """SHA-256 of this rank's weights, and of every tensor and number of its optimizer's state."""
    seen = {f"weights {name}": digest(parameter) for name, parameter in model.named_parameters()}
    groups = engine.basic_optimizer.param_groups
    tensors = [tensor for group in groups for tensor in group["params"]]
    for index, tensor in enumerate(tensors or engine.optimizer.fp32_partitioned_groups_flat):
        seen[f"master {index}"] = digest(tensor)
        for key, value in engine.basic_optimizer.state.get(tensor, {}).items():
            seen[f"{key} {index}"] = digest(value) if torch.is_tensor(value) else repr(value)
    seen["lr"] = repr([group["lr"] for group in groups])
    return seen


def digest(tensor: torch.Tensor) -> str:
    data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest() + str(tuple(tensor.shape)) + str(tensor.dtype)


def main() -> None:
    path = Path(sys.argv[1])
    tasks = json.loads(path.read_text())
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    seen = [run_task(task) for task in tasks]
    path.with_name(f"{path.stem}-rank{os.environ['RANK']}.json").write_text(json.dumps(seen))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
