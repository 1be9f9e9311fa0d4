"""``neox-train config`` as a person types it, with the cases taken from public reports."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from neox_train.commands.config import register
from neox_train.errors import UserError

APP = typer.Typer()
register(APP)


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(APP, ["config", *map(str, arguments)])


def show(cases: Path, *files: str) -> dict[str, object]:
    result = call("show", *(cases / file for file in files))
    assert result.exit_code == 0, result.output
    values: dict[str, object] = yaml.safe_load(result.stdout)
    return values


def show_json(cases: Path, *files: str) -> dict[str, object]:
    result = call("show", "--deepspeed", *(cases / file for file in files))
    assert result.exit_code == 0, result.output
    values: dict[str, object] = json.loads(result.stdout)
    return values


def refused(cases: Path, *files: str) -> str:
    result = call("show", *(cases / file for file in files))
    assert result.exit_code != 0
    assert isinstance(result.exception, UserError)
    sentence = str(result.exception)
    assert "\n" not in sentence
    return sentence


def test_01a_every_spelling_of_a_number(cases: Path) -> None:
    values = show(cases, "base.yml", "01-floats.yml")
    assert values["optimizer"] == {"type": "Adam", "params": {"lr": 0.0006, "betas": [0.9, 0.95], "eps": 1e-08}}
    assert values["lr"] == 0.0006
    assert values["min_lr"] == 0.00006
    assert values["layernorm_epsilon"] == values["norm_epsilon"] == 1e-05
    assert values["init_method_std"] == 0.02


def test_01b_a_word_is_no_number(cases: Path) -> None:
    sentence = refused(cases, "base.yml", "01-word.yml")
    assert re.search(r"01-word\.yml, line 4: optimizer\.params\.lr is '6e-4x'; a number is wanted", sentence)


def test_02a_written_clipping_reaches_deepspeed(cases: Path) -> None:
    assert show_json(cases, "base.yml", "optimizer.yml", "02-clip-written.yml")["gradient_clipping"] == 1.0


def test_02b_clipping_in_force_is_explicit(cases: Path) -> None:
    values = show(cases, "base.yml", "optimizer.yml")
    assert show_json(cases, "base.yml", "optimizer.yml")["gradient_clipping"] == values["gradient_clipping"] == 1.0


def test_02c_the_old_name_of_clipping_is_in_force(cases: Path) -> None:
    files = ("base.yml", "optimizer.yml", "02-clip-old-name.yml")
    assert show_json(cases, *files)["gradient_clipping"] == 0.25
    result = call("show", *(cases / file for file in files))
    assert "clip_grad" in result.stderr and "gradient_clipping" in result.stderr


def test_03a_a_retired_name(cases: Path) -> None:
    sentence = refused(cases, "base.yml", "optimizer.yml", "03-retired.yml")
    assert "03-retired.yml, line 2: save_interval" in sentence
    assert "checkpoint_factor" in sentence


def test_03b_gas(cases: Path) -> None:
    values = show(cases, "base.yml", "optimizer.yml", "03-gas.yml")
    assert (values["gradient_accumulation_steps"], values["train_batch_size"]) == (4, 16)


def test_04a_a_key_twice(cases: Path) -> None:
    sentence = refused(cases, "base.yml", "optimizer.yml", "04-twice-top.yml")
    assert "seed is set twice, to 1234 on line 2 and to 4321 on line 5" in sentence


def test_04b_a_nested_key_twice(cases: Path) -> None:
    sentence = refused(cases, "base.yml", "04-twice-nested.yml")
    assert "optimizer.params.lr is set twice, to 0.0006 on line 4 and to 0.006 on line 6" in sentence


def test_what_is_shown_loads_again(cases: Path, tmp_path: Path) -> None:
    first = call("show", cases / "base.yml", cases / "optimizer.yml", "--world-size", "2", "--vocab-size", "300")
    (tmp_path / "shown.yml").write_text(first.stdout)
    again = call("show", tmp_path / "shown.yml")
    assert again.stdout == first.stdout
    assert "world_size: 2" in first.stdout and "padded_vocab_size: 384" in first.stdout


def test_overrides(cases: Path) -> None:
    result = call("show", cases / "base.yml", cases / "optimizer.yml", "--override", "optimizer.params.lr=2e-3")
    assert yaml.safe_load(result.stdout)["lr"] == 0.002


def test_what_is_not_built_is_shown_and_refused(cases: Path) -> None:
    result = call("show", cases / "base.yml", cases / "optimizer.yml", "--override", "moe_num_experts=8")
    assert isinstance(result.exception, UserError) and result.exception.exit_code == 2
    assert "needs what is not built yet: override moe_num_experts: moe_num_experts: 8 (remove it" in str(
        result.exception
    )
    assert yaml.safe_load(result.stdout)["moe_num_experts"] == 8


def test_what_has_no_length_is_shown_and_refused(cases: Path) -> None:
    result = call("show", cases / "base.yml", cases / "optimizer.yml", "--override", "train_iters=null")
    assert "train_iters is not set; set it" in str(result.exception)
    assert yaml.safe_load(result.stdout)["hidden_size"] == 64


def test_help_says_that_no_file_wins(cases: Path, tmp_path: Path) -> None:
    assert "one value" in call("show", "--help").stdout and "exit code 2" in call("show", "--help").stdout
    (tmp_path / "own.yml").write_text("train_iters: 7\n")
    files = [cases / "base.yml", cases / "optimizer.yml", tmp_path / "own.yml"]
    sentence = str(call("show", *files).exception)
    assert "train_iters is 20 in" in sentence and "--override train_iters=..." in sentence
    result = call("show", *files, "--override", "train_iters=7")
    assert yaml.safe_load(result.stdout)["train_iters"] == 7


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("train-iters", ["Optimizer steps", "in force", "default: null"]),
        ("layernorm_fusion", ["without effect"]),
        ("moe_num_experts", ["not built"]),
        ("ffn_width", ["computed from other keys"]),
        ("save_interval", ["write checkpoint_factor"]),
        ("iteration", ["instead:"]),
        (
            "optimizer.params.betas",
            ["type:    list of float", "read by: adam", "; Lion: [0.9, 0.99]", "block:   optimizer.p"],
        ),
        ("optimizer.params", ["type:    block", "keys:    lr, betas"]),
        ("optimizer", ["keys:    type, params\n"]),
        ("zero_optimization.offload_optimizer.device", ["type:    str", "default: 'none'", "in force"]),
        ("sparsity_config.block", ["type:    int", "default: 16"]),
        ("optimizer.params.amsgrad", ["refused: AMSGrad is not built", "instead: remove it"]),
        ("optimizer.type", ["built: adam, adamw", "muon"]),
        ("zero_optimization.stage", ["type:    int", "0 without it", "built: 0, 1, 2, 3", "in force"]),
        ("zero-optimization.reduce_bucket_size", ["default: 500000000"]),
        ("fp16.loss_scale", ["meaning: Factor of the loss", "type:    float", "default: 0.0", "block:   fp16\n"]),
    ],
)
def test_explain(key: str, expected: list[str]) -> None:
    result = call("explain", key)
    assert result.exit_code == 0
    assert all(text in result.stdout for text in expected)
    assert result.stdout.count("meaning:") == result.stdout.count("status:") <= 1


def test_explain_an_unknown_key() -> None:
    result = call("explain", "hiden_size")
    assert isinstance(result.exception, UserError)
    assert "did you mean hidden_size?" in str(result.exception)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("optimizer.params.beta_s", "did you mean betas?"),
        ("zero_optimization.stages", "did you mean stage?"),
        ("activation_checkpointing.profile", "explain activation_checkpointing"),
        ("seed.x", "explain seed"),
        ("sparsity_config.blok", "is not read; what is read of sparsity_config: block, "),
        ("sparsity_config.blok", "; did you mean block?"),
        ("zero_optimization.offload_param.devic", "device, pin_memory; did you mean device?"),
    ],
)
def test_explain_an_unknown_name_inside_a_block(key: str, words: str) -> None:
    result = call("explain", key)
    assert isinstance(result.exception, UserError)
    assert words in str(result.exception)


def test_reference_writes_the_page(tmp_path: Path) -> None:
    assert call("reference", "--file", tmp_path / "keys.md").exit_code == 0
    assert "| `rotary_pct` | float | `1.0` |" in (tmp_path / "keys.md").read_text()


def test_schema_writes_the_files(tmp_path: Path) -> None:
    result = call("schema", "--folder", tmp_path)
    assert result.exit_code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "cluster.schema.json",
        "pipeline.schema.json",
        "training.schema.json",
    ]


def test_show_tells_what_no_hugging_face_class_expresses(cases: Path) -> None:
    for value, is_told in (("alibi", True), ("rotary", False)):
        result = call("show", cases / "base.yml", cases / "optimizer.yml", "--override", f"pos_emb={value}")
        assert result.exit_code == 0, result.output
        assert ("convert will refuse it" in result.stderr) == is_told
