"""``neox-train plan`` as a person calls it, on the shipped profiles."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from neox_train.commands import plan
from neox_train.config.cluster import load_cluster
from neox_train.config.run import resolve_files
from neox_train.config.support import require_trainable
from neox_train.errors import ConfigError, DoesNotFitError
from neox_train.memory.estimate import estimate_memory
from neox_train.memory.search.layouts import Refusals, list_layouts
from neox_train.memory.search.precisions import list_precisions, read_allowed
from neox_train.memory.search.search import search_layouts
from neox_train.memory.wording import word_size
from tests.memory.plans import make_config

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "1-3B.yml"
H100 = ROOT / "cluster_profiles" / "h100" / "cluster.yaml"


def _call(*arguments: str, config: Path = CONFIG) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    plan.register(app)
    return CliRunner().invoke(app, ["plan", str(config), "--profile", str(H100), *arguments])


def test_the_answer_has_layouts_costs_and_why_others_lost() -> None:
    result = _call("--nodes", "1-2", "--tokens", "26B", "--global-batch", "256")
    assert result.exit_code == 0, result.exception
    for word in ("tokens/s/GPU", "GPU-hours", "best of each number of nodes", "a parameter", "uncalibrated", "slower"):
        assert word in result.stdout
    assert "49,592 steps are 26.0B tokens" in result.stdout


def test_the_written_file_is_the_choice(tmp_path: Path) -> None:
    written = tmp_path / "chosen.yml"
    result = _call("--nodes", "2", "--global-batch", "256", "--tokens", "26B", "--write", str(written))
    assert result.exit_code == 0, result.exception
    cluster = load_cluster(H100)
    config = resolve_files([written], cluster, nodes=2).with_vocab_size(50_257)
    require_trainable(config, cluster)
    assert config.train_batch_size == 256 and config.train_iters == 49_592
    estimate = estimate_memory(config, cluster)
    assert estimate.verdict == "fits"
    # The first line of the table promised this memory.
    assert word_size(estimate.total) in result.stdout.splitlines()[2]
    keys = yaml.safe_load("".join(line[4:] + "\n" for line in written.read_text().splitlines() if line[:4] == "#   "))
    same = resolve_files([CONFIG], cluster, nodes=2, overrides=keys).with_vocab_size(50_257)
    assert same.to_dict() == config.to_dict()


def test_every_choice_keeps_the_global_batch_and_fits() -> None:
    cluster = load_cluster(H100)
    base = resolve_files([CONFIG], cluster, nodes=2).with_vocab_size(50_257)
    found = search_layouts([CONFIG], cluster, [2], base)
    assert len(found.choices) == 10
    assert all(choice.layout.plan.global_batch == base.train_batch_size for choice in found.choices)
    assert all(choice.memory <= found.limit for choice in found.choices)
    times = [choice.step.total for choice in found.choices]
    assert times == sorted(times)


def test_layouts_that_training_refuses_are_not_listed() -> None:
    cluster = load_cluster(H100)
    base = resolve_files([CONFIG], cluster, nodes=1).with_vocab_size(50_257)
    refusals = Refusals()
    layouts = list(list_layouts([CONFIG], cluster, 1, base, refusals))
    assert not any(layout.stages > 1 and layout.zero_stage > 1 for layout in layouts)
    assert refusals.counts["a rule of the configuration"] > 0


def test_a_deadline_prefers_the_cheapest_in_time() -> None:
    arguments = ("--nodes", "1-4", "--global-batch", "256", "--tokens", "26B")
    fastest, cheapest = _call(*arguments).stdout, _call(*arguments, "--deadline", "30d").stdout
    assert fastest.splitlines()[2].split()[0] == "4"
    assert cheapest.splitlines()[2].split()[0] == "1"
    assert "nothing meets the deadline" in _call(*arguments, "--deadline", "1h").stdout


def test_weak_scaling_is_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "scaling.png"
    assert _call("--nodes", "1", "--scaling", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--nodes", "4-2"), "--nodes 4-2"),
        (("--tokens", "many"), "--tokens many"),
        (("--deadline", "soon"), "--deadline soon"),
        (("--global-batch", "7"), "--global-batch 7"),
        (("--allow", "speed"), "--allow speed"),
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], word: str) -> None:
    result = _call(*arguments)
    assert isinstance(result.exception, ConfigError)
    assert word in str(result.exception) and "\n" not in str(result.exception)


def test_a_configuration_in_fp8_is_planned_in_fp8() -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    plan.register(app)
    files = [str(CONFIG), str(ROOT / "configs" / "fp8.yml")]
    stacked = CliRunner().invoke(app, ["plan", *files, "--profile", str(H100)])
    assert stacked.exit_code == 0, stacked.exception
    assert "FP8" in stacked.stdout.splitlines()[2]
    assert "precision stays FP8" in stacked.stdout


def test_precision_changes_only_where_it_is_allowed(tmp_path: Path) -> None:
    arguments = ("--nodes", "1", "--global-batch", "64")
    kept, written = _call(*arguments), tmp_path / "narrow.yml"
    assert "FP8" not in kept.stdout and "precision stays fp16; --allow precision,optimizer" in kept.stdout
    changed = _call(*arguments, "--allow", "precision,optimizer", "--write", str(written))
    assert changed.exit_code == 0, changed.exception
    assert "FP8" in changed.stdout.splitlines()[2] and "compare losses" in changed.stdout
    cluster = load_cluster(H100)
    config = resolve_files([written], cluster, nodes=1).with_vocab_size(50_257)
    require_trainable(config, cluster)
    assert (config.precision, config.te_fp8, config.te_mha) == ("bfloat16", True, True)
    assert word_size(estimate_memory(config, cluster).total) in changed.stdout.splitlines()[2]


def test_fp8_is_not_offered_without_its_hardware() -> None:
    a100 = ROOT / "cluster_profiles" / "a100" / "cluster.yaml"
    app = typer.Typer()
    app.callback()(lambda: None)
    plan.register(app)
    arguments = ["plan", str(CONFIG), "--profile", str(a100), "--global-batch", "64", "--allow", "precision"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.exception
    table, reasons = result.stdout.split("others lost:")
    assert "FP8" not in table and "FP8 needs compute capability" in reasons


def test_8_bit_states_only_where_they_are_allowed() -> None:
    cluster = load_cluster(ROOT / "cluster_profiles" / "h200" / "cluster.yaml")
    files = [ROOT / "configs" / "6-7B.yml"]
    base = resolve_files(files, cluster).with_vocab_size(50_257)
    found = search_layouts(files, cluster, [1], base)
    assert found.choices and all(choice.layout.plan.optimizer == "adam_8bit" for choice in found.choices)
    assert not search_layouts(files, cluster, [1], base, allowed=frozenset()).choices


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({"precision": "fp32"}, ["", "bfloat16", "fp16", "FP8"]),
        ({"precision": "bfloat16"}, ["", "fp16", "FP8"]),
        ({"fp16": {"enabled": True}}, ["", "bfloat16", "FP8"]),
    ],
)
def test_every_change_of_precision_resolves_to_what_it_says(own: dict[str, object], names: list[str]) -> None:
    base = make_config(world_size=1, **own)
    changes = list_precisions(base, read_allowed("precision"))
    resolved = [make_config(world_size=1, **{**own, **dict(change.keys)}) for change in changes]
    found = ["FP8" if config.te_fp8 else str(config.precision) for config in resolved]
    assert found == [name or str(base.precision) for name in names]
    assert list_precisions(base, frozenset()) == changes[:1]


def test_of_equal_layouts_the_largest_micro_batch_is_first() -> None:
    cluster = load_cluster(H100)
    base = resolve_files([CONFIG], cluster, nodes=1).with_vocab_size(50_257)
    plans = [(choice.step.total, choice.layout) for choice in search_layouts([CONFIG], cluster, [1], base).choices]
    for (time, layout), (later, other) in itertools.pairwise(plans):
        same = (layout.stages, layout.tensor_parallel, layout.zero_stage)
        if abs(time - later) < 1e-9 and same == (other.stages, other.tensor_parallel, other.zero_stage):
            assert layout.plan.micro_batch > other.plan.micro_batch


def test_where_nothing_fits_it_says_so() -> None:
    result = _call("--nodes", "1", "--global-batch", "64", config=ROOT / "configs" / "175B.yml")
    assert isinstance(result.exception, DoesNotFitError)
    assert "no layout fits h100" in str(result.exception)


@pytest.mark.parametrize("allow", ["optimizer", "none"])
def test_8_bit_states_that_are_the_configuration_s_own_stay(allow: str) -> None:
    config = ROOT / "configs" / "bnb_125M.yml"
    result = _call("--nodes", "1", "--global-batch", "256", "--allow", allow, config=config)
    assert result.exit_code == 0, result.exception
    first = result.stdout.splitlines()[2].split()
    assert first[8] == "yes"
