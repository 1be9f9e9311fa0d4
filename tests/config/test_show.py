"""What a configuration comes to, as `config show` prints it first."""

from __future__ import annotations

from pathlib import Path

import pytest

from neox_train.config.load import load_config
from neox_train.config.show import render_sizes
from tests.config.files import load_tiny
from tests.config.test_command import call
from tests.config.test_configs import PARAMETERS


def test_every_number_a_person_asks_for() -> None:
    changes = {"gradient_accumulation_steps": 3, "model_parallel_size": 2, "pipe_parallel_size": 2, "processes": 8}
    assert render_sizes(load_tiny(**changes).with_vocab_size(300)).splitlines() == [
        "# What it comes to",
        "#   processes: 8 = 2 data-parallel x 2 tensor-parallel x 2 pipeline-parallel",
        "#   a step: 24 sequences (micro-batch 4 x accumulation 3 x 2 ranks) of 64 tokens = 1,536 tokens",
        "#   the training: 20 steps = 30,720 tokens, 0.185 for each parameter",
        "#   parameters: 165,632 = 100,096 non-embedding + 65,536 of embeddings and output",
        "#   vocabulary: 300 tokens, padded to 512",
        "#   widths: hidden 64, MLP 256 (4 x hidden), 4 heads of 16",
    ]


def test_a_gated_mlp_grouped_heads_and_a_tied_output() -> None:
    config = load_tiny(activation="swiglu", num_kv_heads=2, no_weight_tying=False, train_iters=None)
    text = render_sizes(config.with_vocab_size(300))
    assert "MLP 85 (1.33 x hidden, gated by swiglu: three matrices), 4 heads of 16, 2 of keys and values" in text
    assert "of embeddings, shared with the output" in text and "as long as train_iters will say" in text


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_models(repository: Path, name: str) -> None:
    config = load_config([repository / "configs" / f"{name}.yml"], world_size=8).with_vocab_size(50257)
    total, inner = PARAMETERS[name]
    assert f"parameters: {total:,} = {inner:,} non-embedding" in render_sizes(config)


def test_the_command_prints_it_first(cases: Path) -> None:
    files = (cases / "base.yml", cases / "optimizer.yml")
    known = call("show", *files, "--vocab-size", "300")
    assert known.stdout.startswith("# What it comes to\n#   processes: 1 = 1")
    assert "vocabulary: 300 tokens" in known.stdout and "is assumed" not in known.stderr
    assumed = call("show", *files)
    assert "vocabulary: 50,257 tokens" in assumed.stdout
    assert "a vocabulary of 50,257 tokens is assumed" in assumed.stderr
    assert "\nvocab_size: null\n" in assumed.stdout


def test_data_that_are_torn_do_not_keep_it_from_showing(cases: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")
    result = call("show", cases / "base.yml", cases / "optimizer.yml", "--override", f"data_path={tmp_path}")
    assert result.exit_code == 0 and result.stdout.startswith("# What it comes to")
    assert "the data do not tell their vocabulary, so 50,257 tokens are assumed: " in result.stderr
