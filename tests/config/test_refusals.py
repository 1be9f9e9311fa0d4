"""Every refusal names key, value, place, rule and remedy; explain calls it refused; values that mean "off" are fine."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import neox_train.config as package
from neox_train.config.block_table import list_blocks, read_block_entry
from neox_train.config.explain import explain_key
from neox_train.config.keys import is_off, read_remedy, read_status
from neox_train.config.load import load_config
from neox_train.config.refusals import BLOCK_REFUSALS
from neox_train.config.retired import RETIRED
from neox_train.config.schema import NeoxKeys
from neox_train.config.support import OPTIMIZER_PARAMS, list_unsupported, require_trainable
from neox_train.errors import ConfigError
from tests.config.files import TINY, load_tiny, refuse

REFUSED = [name for name, field in NeoxKeys.model_fields.items() if read_status(field) == "refused"]
VALUES: dict[str, Any] = {
    "deepspeed": "false",
    "allow_chopped": "false",
    "output_layer_parallelism": "row",
    "pack_impl": "unpacked",
    "train_impl": "dpo",
    "dataset_impl": "online",
    "opt_pos_emb_offset": 2,
    "moe_num_experts": 8,
    "z_loss": 0.1,
    "iteration": 3,
    "train_epochs": 2,
    "exit_interval": 3,
    "s3_path": "s3://bucket",
    "precompute_model_name": "name",
}
BLOCKS = {
    "amp",
    "soft_prompt_tuning",
    "scheduler",
    "checkpoint",
    "flops_profiler",
    "autotuning",
    "sparse_attention",
    "data_efficiency",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "elasticity",
    "comms_logger",
    "compression_training",
    "curriculum_learning",
}
VERBS = ("remove it", "set ")


def sample(name: str) -> str:
    """A value, as YAML, that switches the key on."""
    if name in BLOCKS:
        return "{enabled: true}"
    if name.endswith("_paths") or name == "eval_tasks":
        return "[a]"
    return str(VALUES.get(name, "true"))


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_key_is_named_with_place_value_rule_and_remedy(tmp_path: Path, name: str) -> None:
    file = tmp_path / "more.yml"
    file.write_text(f"{name}: {sample(name)}\n")
    sentence = refuse(lambda: require_trainable(load_config([*TINY, file])))
    assert f"{file}, line 1: {name}: " in sentence and "not built" in sentence
    remedy = read_remedy(NeoxKeys.model_fields[name])
    assert remedy.startswith(VERBS) and f"({remedy})" in sentence
    explained = explain_key(name)
    assert "status:  refused" in explained and f"instead: {remedy}" in explained


@pytest.mark.parametrize("name", REFUSED)
def test_off_is_accepted(name: str) -> None:
    field = NeoxKeys.model_fields[name]
    offs: list[Any] = [field.get_default(call_default_factory=True)]
    if name in BLOCKS:
        offs += [{}, {"enabled": False, "steps": 3}]
    elif name.endswith("_paths") or name == "eval_tasks":
        offs.append([])
    elif name in ("s3_path", "precompute_model_name"):
        offs.append("")
    elif name in ("use_wandb", "use_comet"):
        offs.append(False)
    for off in offs:
        require_trainable(load_tiny(**{name: off}))


ON: dict[str, Any] = {
    "zero_optimization.mics_shard_size": 2,
    "zero_optimization.offload_optimizer": {"device": "cpu"},
    "zero_optimization.offload_param": {"device": "cpu"},
    "zero_optimization.zenflow": {"topk_ratio": 0.1},
    "zero_optimization.zeropp_loco_param": {"err_beta": 0.8},
    "zero_optimization.leaf_module": {"classes": ["a"]},
    "optimizer.params.weight_decay": 0.1,
    "optimizer.params.beta": 0.9,
}
OFF: dict[str, list[Any]] = {
    "zero_optimization.mics_shard_size": [-1],
    "zero_optimization.zenflow": [None],
    "zero_optimization.zeropp_loco_param": [None],
    "zero_optimization.leaf_module": [{}],
    "optimizer.params.weight_decay": [],
    "optimizer.params.beta": [],
}


@pytest.mark.parametrize("path", BLOCK_REFUSALS)
def test_a_refused_key_of_a_block_is_named_with_place_value_rule_and_remedy(path: str) -> None:
    refusal = BLOCK_REFUSALS[path]
    stage = {"zero_optimization.stage": 1}
    sentence = refuse(lambda: require_trainable(load_tiny(**stage, **{path: ON.get(path, True)})))
    assert f"override {path}: {path}" in sentence
    explained = explain_key(path)
    assert explained.startswith(path) and f"status:  refused: {refusal.reason}" in explained
    assert f"instead: {refusal.remedy}" in explained and refusal.remedy.startswith(VERBS)
    for off in OFF.get(path, [False]):
        require_trainable(load_tiny(**stage, **{path: off}))


def test_what_is_off_never_reaches_deepspeed() -> None:
    from neox_train.config.deepspeed import deepspeed_json

    config = load_tiny(zero_optimization={"stage": 1, "offload_optimizer": {"device": "none"}, "mics_shard_size": -1})
    assert not {"offload_optimizer", "mics_shard_size"} & deepspeed_json(config)["zero_optimization"].keys()


SAMPLES = {"bool": True, "float": 0.5, "int": 3, "str": "a", "list of float": [0.9, 0.9], "block": {"a": 1}}


@pytest.mark.parametrize("path", [entry.path for _, _, entries in list_blocks() for entry in entries])
def test_whatever_training_refuses_by_its_presence_is_called_refused(path: str) -> None:
    """Every key inside a block is tried beside every optimizer and ZeRO stage."""
    if path in ("optimizer.type", "zero_optimization.stage") or path.endswith(".enabled"):
        return
    entry = read_block_entry(path)
    value = ON.get(path, SAMPLES.get(entry.type.partition(" or null")[0], "fp32"))
    around: list[dict[str, Any]] = [{"zero_optimization.stage": 1, "precision": "bfloat16"}]
    if path.startswith("optimizer"):
        around = [{"optimizer": {"type": kind, "params": {"lr": 0.1}}, **_beside(kind)} for kind in OPTIMIZER_PARAMS]
    elif path.startswith("zero_optimization"):
        around += [
            {"zero_optimization.stage": 0},
            {"zero_optimization.stage": 3, "precision": "bfloat16", "communication_data_type": "fp16", "processes": 3},
            {"zero_optimization.stage": 3, "zero_optimization.offload_optimizer": {"device": "cpu"}},
        ]
    elif path.startswith("fp16"):
        around = [{"fp16.enabled": True}]
    accepted = [change for change in around if _is_accepted({**change, path: value}, path)]
    assert bool(accepted) == (not entry.status.startswith("refused")), entry


def _beside(kind: str) -> dict[str, Any]:
    return {"gradient_clipping": 0.0} if kind.startswith(("onebit", "zeroone")) else {}


def _is_accepted(change: dict[str, Any], path: str) -> bool:
    extra = {"optimizer.params.momentum": 0.9} if path.endswith("nesterov") else {}
    try:
        return not any(path in problem for problem in list_unsupported(load_tiny(**change, **extra)))
    except ConfigError as error:
        return path not in str(error)


@pytest.mark.parametrize(
    ("value", "off"),
    [(None, True), (False, True), ({}, True), ([], True), ("", True), (0, False), (True, False), ({"a": 1}, False)],
)
def test_off(value: Any, off: bool) -> None:
    assert is_off(value) is off


WORDS = ("; ", "want", "did you mean")
RAISED = {"ConfigError", "ConflictError", "NotBuiltError"}


def test_every_sentence_of_this_room_has_a_rule_and_a_remedy() -> None:
    """A structural check of what is raised: "what is; what to write"."""
    bare = []
    for file in sorted(Path(package.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _name(node.exc.func) in RAISED:
                if not node.exc.args or isinstance(node.exc.args[0], ast.Call):
                    continue
                text = "".join(
                    part.value
                    for part in ast.walk(node.exc.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                )
                is_whole = text.count(" ") > 2  # Else the sentence is a variable, as of retired names.
                if is_whole and not any(word in text for word in WORDS):
                    bare.append(f"{file.name}:{node.lineno}: {text}")
    assert bare == []


def test_every_retired_name_says_what_to_write() -> None:
    assert [name for name, retired in RETIRED.items() if not retired.today and "; " not in retired.sentence] == []


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
