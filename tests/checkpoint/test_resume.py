from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.manifest import Manifest, World
from neox_train.checkpoint.resume import check_resume
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import CheckpointError

DIGESTS = {"config": "c" * 64, "dataset": "d" * 64, "tokenizer": "t" * 64}


def load(cases: Path, **overrides: Any) -> NeoxConfig:
    return load_config([cases / "base.yml", cases / "optimizer.yml"], overrides=overrides).with_vocab_size(251)


@pytest.fixture
def manifest(cases: Path) -> Manifest:
    config = load(cases)
    relevant = config.training_relevant()
    return Manifest(
        step=30,
        world=World(size=2, dp=2),
        parameters={},
        files={},
        digests=DIGESTS,
        training_relevant=relevant,
        other_settings={key: value for key, value in config.to_dict().items() if key not in relevant},
    )


def test_the_same_run_resumes_in_silence(manifest: Manifest, cases: Path) -> None:
    assert check_resume(manifest, load(cases), DIGESTS) == []


def test_length_logging_evaluation_and_saving_may_change_with_a_notice(manifest: Manifest, cases: Path) -> None:
    changed = load(cases, train_iters=40, lr_decay_iters=20, log_interval=7, eval_interval=5, checkpoint_factor=3)
    notices = check_resume(manifest, changed, DIGESTS)
    for key, new, old in [("train_iters", 40, 20), ("log_interval", 7, 1), ("eval_interval", 5, 10)]:
        assert f"resuming step_00000030 with {key} {new}, the checkpoint was saved with {old}" in notices


def test_another_hyper_parameter_is_refused_with_both_values_and_remedies(manifest: Manifest, cases: Path) -> None:
    with pytest.raises(CheckpointError) as refusal:
        check_resume(manifest, load(cases, weight_decay=0.2), DIGESTS)
    sentence = str(refusal.value)
    for part in ("weight_decay 0.1 (now 0.2)", "new name", "--allow-change weight_decay"):
        assert part in sentence


def test_an_allowed_change_resumes_and_says_so(manifest: Manifest, cases: Path) -> None:
    notices = check_resume(manifest, load(cases, weight_decay=0.2), DIGESTS, ["weight_decay"])
    assert notices == ["resuming step_00000030 with weight_decay 0.2 in place of 0.1, as allowed"]


@pytest.mark.parametrize("name", ["dataset", "tokenizer"])
def test_another_dataset_or_tokenizer_is_refused_unless_allowed(manifest: Manifest, cases: Path, name: str) -> None:
    digests = {**DIGESTS, name: "e" * 64}
    with pytest.raises(CheckpointError, match=f"--allow-change {name}"):
        check_resume(manifest, load(cases), digests)
    assert len(check_resume(manifest, load(cases), digests, [name])) == 1
