"""One rank of the distributed checkpoint tests: runs a list of tasks with the real model on a real engine.

Started with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT set; the argument is a JSON file of tasks. Rank 0
writes what it saw beside it: losses as text that reads back equal, and digests of every weight and state.
"""

from __future__ import annotations

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
from deepspeed.runtime.fp16.unfused_optimizer import FP16_UnfusedOptimizer
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

from neox_train.checkpoint.agreement import choose_checkpoint_together
from neox_train.checkpoint.reader import restore_checkpoint
from neox_train.checkpoint.state import TrainerState
from neox_train.checkpoint.writer import save_checkpoint
from neox_train.config.architecture import Architecture
from neox_train.config.deepspeed import deepspeed_json, flat_masters_json
from neox_train.config.load import load_config
from neox_train.errors import UserError
from neox_train.model.gpt_neox import GPTNeoX
from neox_train.model.initialisation import initialise
from neox_train.training.flat_engine import attach_flat_masters, build_flat_masters
from neox_train.training.flat_masters import FlatMasters
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.muon_shards import attach_muon_shards
from neox_train.training.optimizer import build_optimizer
from neox_train.training.parameter_groups import group_parameters
from neox_train.training.sharded_gather import gather_one_by_one
from tests.checkpoint.digest import SAMPLES, VOCAB_SIZE, digest

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = [CASES / "base.yml", CASES / "optimizer.yml"]


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    if "choose" in task:
        folder, skipped = choose_checkpoint_together(Path(task["choose"]))
        return {"chosen": folder and folder.name, "skipped": {path.name: reason for path, reason in skipped}}
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
        seen["restored_whole"] = digest_whole(engine, model)
        seen["trainer"] = state.to_dict()
    for _ in range(task.get("steps", 0)):
        state.step += 1
        seen["losses"].append(train_step(engine, state))
        seen["draws"].append([torch.rand(()).item(), float(np.random.rand()), random.random(), random.gauss(0, 1)])
        if state.step in task.get("save_at", []):
            seen.setdefault("saves", []).append(save(task, engine, model, config, state))
    if task.get("save_restored"):
        seen.setdefault("saves", []).append(save(task, engine, model, config, state))
    seen["final"] = digest_engine(engine, model)
    seen["final_whole"] = digest_whole(engine, model)
    seen["counters"] = [engine.global_steps, engine.micro_steps, engine.global_samples, engine.skipped_steps]
    seen["optimizer"] = type(engine.optimizer).__name__
    seen["padding_is_zero"] = not model.word_embeddings.weight[VOCAB_SIZE:].any().item()
    engine.destroy()
    return seen


def save(task: dict[str, Any], engine: Any, model: GPTNeoX, config: Any, state: TrainerState) -> list[str]:
    state.consumed_samples = state.step * SAMPLES
    state.last_validation_loss = 0.1 + 0.2
    digests = {"config": config.training_digest(), "dataset": "d" * 64, "tokenizer": "t" * 64}
    root = Path(task["root"])
    try:
        folder = save_checkpoint(root, engine=engine, model=model, config=config, trainer=state, digests=digests)
    except UserError as error:
        return [type(error).__name__, str(error)]
    return ["saved", folder.name]


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
    groups = group_parameters(model, architecture, config)
    if not config.flat_master_weights:
        optimizer = build_optimizer(config, groups, torch.device("cpu"))
        settings = gather_one_by_one(deepspeed_json(config), torch.device("cpu"))
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
        if isinstance(optimizer, MuonWithAdamW):
            attach_muon_shards(engine, model, optimizer)
        return engine, model
    flat = build_flat_masters(config, [{**group, "lr": 1e-3} for group in groups])
    engine, *_ = deepspeed.initialize(model=model, optimizer=flat, config=flat_masters_json(config))
    attach_flat_masters(engine, flat, config)
    return engine, model


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
    # Of ZeRO 3 the rank's own part: whole copies of small parameters are gathered again whenever DeepSpeed likes.
    seen = {f"weights {name}": digest(getattr(p, "ds_tensor", p)) for name, p in model.named_parameters()}
    base = getattr(engine.basic_optimizer, "base", engine.basic_optimizer)
    groups = base.param_groups
    tensors = [tensor for group in groups for tensor in group["params"]]
    for index, tensor in enumerate(tensors or engine.optimizer.fp32_partitioned_groups_flat):
        seen[f"master {index}"] = digest(tensor)
        for key, value in base.state.get(tensor, {}).items():
            seen[f"{key} {index}"] = digest(value) if torch.is_tensor(value) else repr(value)
    seen["lr"] = repr([group["lr"] for group in groups])
    return seen


def digest_whole(engine: Any, model: GPTNeoX) -> dict[str, str]:
    """SHA-256 of the whole master weights and moments by name, put together by DeepSpeed's own functions.

    Vocabulary padding is left out. Its map of round-robin groups is wrong, so those are left out altogether.
    """
    wrapper = engine.optimizer
    if getattr(wrapper, "round_robin_gradients", False):
        return {}
    if isinstance(wrapper, FlatMasters):
        return digest_flat(wrapper, model)
    if hasattr(wrapper, "_lazy_init_hp_params_optimizer_state"):
        # DeepSpeed links after the first group's step, when the second has no states yet.
        wrapper._hp_optimizer_states_linked = False
        wrapper._lazy_init_hp_params_optimizer_state()
    keys = (None, "exp_avg", "exp_avg_sq") if isinstance(engine.basic_optimizer, torch.optim.AdamW) else (None,)
    masters = {parameter: parameter for parameter in model.parameters()}
    if isinstance(wrapper, FP16_UnfusedOptimizer):
        for copies, parameters in zip(wrapper.fp32_groups, wrapper.fp16_groups, strict=True):
            masters.update(zip(parameters, copies, strict=True))
    seen = {}
    for name, parameter in model.named_parameters():
        for key in keys:
            if hasattr(parameter, "_hp_mapping") or hasattr(parameter, "ds_id"):
                whole = safe_get_full_optimizer_state(parameter, key) if key else safe_get_full_fp32_param(parameter)
            else:
                states = engine.basic_optimizer.state.get(masters[parameter], {})
                whole = states.get(key) if key else masters[parameter]
            if whole is not None:
                is_vocabulary = name in ("word_embeddings.weight", "output.weight")
                seen[f"{key or 'master'} {name}"] = digest(whole[:VOCAB_SIZE] if is_vocabulary else whole)
    return seen


def digest_flat(optimizer: FlatMasters, model: GPTNeoX) -> dict[str, str]:
    """The same of flat master weights, whose partitions are gathered here."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    seen = {}
    for group in optimizer.flat_groups:
        sources = {"master": group.master.detach(), **optimizer.base.state.get(group.master, {})}
        for key in ("master", "exp_avg", "exp_avg_sq"):
            if key not in sources:
                continue
            parts = [torch.empty_like(sources[key]) for _ in range(group.shards)]
            if group.shards > 1:
                torch.distributed.all_gather(parts, sources[key])
            else:
                parts = [sources[key]]
            for parameter, whole in zip(group.parameters, group.views(torch.cat(parts)), strict=True):
                is_vocabulary = names[parameter] in ("word_embeddings.weight", "output.weight")
                seen[f"{key} {names[parameter]}"] = digest(whole[:VOCAB_SIZE] if is_vocabulary else whole)
    return seen


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
