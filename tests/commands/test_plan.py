"""``neox-train plan`` as a person calls it, on the shipped profiles."""

from __future__ import annotations

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
from neox_train.memory.search.search import search_layouts
from neox_train.memory.wording import word_size

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
    ],
)
def test_mistakes_are_one_sentence(arguments: tuple[str, ...], word: str) -> None:
    result = _call(*arguments)
    assert isinstance(result.exception, ConfigError)
    assert word in str(result.exception) and "\n" not in str(result.exception)


def test_fp8_is_said_not_to_be_modelled() -> None:
    assert _call("--nodes", "1").stdout.count("FP8 is not modelled") == 0
    app = typer.Typer()
    app.callback()(lambda: None)
    plan.register(app)
    files = [str(CONFIG), str(ROOT / "configs" / "fp8.yml")]
    stacked = CliRunner().invoke(app, ["plan", *files, "--profile", str(H100)])
    assert stacked.exit_code == 0, stacked.exception
    assert stacked.stdout.count("FP8 is not modelled") == 1


def test_where_nothing_fits_it_says_so() -> None:
    result = _call("--nodes", "1", "--global-batch", "64", config=ROOT / "configs" / "175B.yml")
    assert isinstance(result.exception, DoesNotFitError)
    assert "no layout fits h100" in str(result.exception)
