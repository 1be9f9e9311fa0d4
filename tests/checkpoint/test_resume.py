from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.manifest import Manifest, World
from neox_train.checkpoint.resume import check_resume
from neox_train.checkpoint.table import build_table
from neox_train.config.architecture import Architecture
from neox_train.config.load import load_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import CheckpointError

DIGESTS = {"config": "c" * 64, "dataset": "d" * 64, "tokenizer": "t" * 64}


def load(cases: Path, **overrides: Any) -> NeoxConfig:
    return load_config([cases / "base.yml", cases / "optimizer.yml"], overrides=overrides).with_vocab_size(251)


@pytest.fixture
def manifest(cases: Path) -> Manifest:
    return saved_with(load(cases))


def saved_with(config: NeoxConfig) -> Manifest:
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


def test_a_longer_training_resumes_and_names_the_schedule_that_follows_it(cases: Path) -> None:
    saved = saved_with(load(cases, lr_decay_iters=None))
    longer = load(cases, lr_decay_iters=None, train_iters=40)
    assert longer.training_digest() == load(cases, lr_decay_iters=None).training_digest()
    (schedule,) = [notice for notice in check_resume(saved, longer, DIGESTS) if "schedule" in notice]
    assert "lr_decay_iters is 40 in place of 20" in schedule
    assert "`lr_decay_iters: 20` keeps the old one" in schedule


def test_the_kept_schedule_of_a_longer_training_is_no_change(cases: Path) -> None:
    saved = saved_with(load(cases, lr_decay_iters=None))
    kept = load(cases, lr_decay_iters=20, train_iters=40)
    assert kept.training_digest() != load(cases, lr_decay_iters=None, train_iters=40).training_digest()
    assert not any("schedule" in notice for notice in check_resume(saved, kept, DIGESTS))
    longer_still = load(cases, lr_decay_iters=20, train_iters=60)
    assert not any("schedule" in notice for notice in check_resume(saved_with(kept), longer_still, DIGESTS))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"lr_decay_iters": 10}, {"lr_decay_iters": 15}),
        ({"lr_decay_iters": 10}, {"lr_decay_iters": None, "train_iters": 40}),
        ({"lr_decay_iters": None, "lr_decay_fraction": 0.5}, {"lr_decay_iters": None}),
        ({"lr_decay_iters": None}, {"lr_decay_iters": 30, "train_iters": 40}),
    ],
)
def test_a_schedule_changed_on_purpose_is_refused(cases: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    saved, changed = saved_with(load(cases, **before)), load(cases, **after)
    with pytest.raises(CheckpointError, match="--allow-change lr_decay_iters"):
        check_resume(saved, changed, DIGESTS)
    assert any("lr_decay_iters" in notice for notice in check_resume(saved, changed, DIGESTS, ["lr_decay_iters"]))


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


def test_weights_of_other_shapes_cannot_be_allowed(cases: Path) -> None:
    config = load(cases)
    table = build_table(Architecture.from_config(config))
    saved = replace(saved_with(config), parameters=table)
    wider = load(cases, hidden_size=128)
    for allowed in ((), ("hidden_size", "ffn_width")):
        with pytest.raises(CheckpointError) as refusal:
            check_resume(saved, wider, DIGESTS, allowed)
        assert "hidden_size 64 (now 128)" in str(refusal.value)
        assert "word_embeddings.weight 251x64, now 251x128" in str(refusal.value)
        assert "new name" in str(refusal.value) and "--allow-change" not in str(refusal.value)
    with pytest.raises(CheckpointError, match=r"position_embeddings\.weight absent, now 64x64"):
        check_resume(saved, load(cases, pos_emb="learned"), DIGESTS, ("pos_emb",))
    # A key that leaves the shapes alone is the user's to allow.
    (notice,) = check_resume(saved, load(cases, rotary_pct=0.5), DIGESTS, ("rotary_pct",))
    assert notice.endswith("rotary_pct 0.5 in place of 0.25, as allowed")


def test_a_key_that_has_nothing_to_do_may_have_any_value(cases: Path) -> None:
    # As of a version with other defaults; with local updates on, the same keys count.
    old = {"local_update_steps": 50, "local_update_momentum": 0.9}
    saved = saved_with(load(cases))
    saved = replace(saved, training_relevant={**saved.training_relevant, **old})
    assert check_resume(saved, load(cases), DIGESTS) == []
    assert check_resume(saved, load(cases, powersgd_rank=7), DIGESTS) == []
    with pytest.raises(CheckpointError, match=r"gradient_compression none \(now powersgd\), powersgd_rank"):
        check_resume(saved, load(cases, gradient_compression="powersgd", powersgd_rank=7), DIGESTS)
