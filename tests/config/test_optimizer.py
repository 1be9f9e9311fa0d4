from __future__ import annotations

from tests.config.files import load_tiny, refuse_tiny


def test_adam_carries_every_number() -> None:
    config = load_tiny(optimizer={"type": "Adam", "params": {"lr": 0.01}}, min_lr=0.0)
    assert config.optimizer == {"type": "Adam", "params": {"lr": 0.01, "betas": [0.9, 0.999], "eps": 1e-8}}
    assert (config.lr, config.optimizer_type) == (0.01, "adam")


def test_the_default_optimizer() -> None:
    config = load_tiny(optimizer=None)
    assert config.lr == 0.001


def test_sgd_has_no_betas() -> None:
    assert load_tiny(optimizer={"type": "SGD", "params": {"lr": 1.0, "momentum": 0}}).optimizer == {
        "type": "SGD",
        "params": {"lr": 1.0, "momentum": 0.0},
    }


def test_bad_blocks() -> None:
    assert "has no params" in refuse_tiny(optimizer={"type": "Adam"})
    assert "has no type" in refuse_tiny(optimizer={"params": {"lr": 0.1}})
    assert "'Adm'; one of adam, adamw" in refuse_tiny(optimizer={"type": "Adm", "params": {"lr": 0.1}})
    assert "at the top level" in refuse_tiny(optimizer={"type": "Adam", "params": {"lr": 0.1, "weight_decay": 0.1}})
    assert "two numbers from 0" in refuse_tiny(optimizer={"type": "Adam", "params": {"lr": 0.1, "betas": [0.9, 1.0]}})
    sentence = refuse_tiny(optimizer={"type": "Adam", "params": {"lr": 0.1, "bettas": [0.9, 0.95]}})
    assert sentence == "override optimizer: optimizer.params.bettas is not a known key; did you mean betas?"


def test_the_lowest_rate_stays_below_the_rate() -> None:
    sentence = refuse_tiny(min_lr=0.01)
    assert "min_lr 0.01 is more than optimizer.params.lr 0.001" in sentence
    assert "optimizer.yml, line 2" in sentence


def test_decay_steps() -> None:
    assert load_tiny(lr_decay_iters=None).lr_decay_iters == 20
    assert load_tiny(lr_decay_iters=None, lr_decay_fraction=0.5).lr_decay_iters == 10
    assert load_tiny(lr_decay_iters=None, train_iters=None).lr_decay_iters is None


def test_zero_defaults_are_written_out() -> None:
    config = load_tiny(zero_optimization={"stage": 1, "reduce_bucket_size": 1e6})
    assert config.zero_stage == 1
    assert config.zero_optimization["reduce_bucket_size"] == 1_000_000
    assert config.zero_optimization["allgather_bucket_size"] == 500_000_000
    assert load_tiny().zero_stage == 0


def test_bad_zero_blocks() -> None:
    assert "has no stage" in refuse_tiny(zero_optimization={"overlap_comm": True})
    assert "zero_optimization.stage is 4; at most 3" in refuse_tiny(zero_optimization={"stage": 4})
    assert "did you mean overlap_comm?" in refuse_tiny(zero_optimization={"stage": 1, "overlap_com": True})
    assert "is 1.5; a whole number" in refuse_tiny(zero_optimization={"stage": 1, "reduce_bucket_size": 1.5})
