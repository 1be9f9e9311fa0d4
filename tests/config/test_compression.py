from __future__ import annotations

import pytest

from neox_train.config.compression import choose_communication_type, list_candidates
from neox_train.config.implementations import Implementations
from neox_train.config.local_update import LocalUpdateSettings, choose_local_update
from neox_train.config.one_bit import choose_one_bit_warmup
from neox_train.config.support import list_unsupported, require_trainable
from neox_train.errors import ConfigError, NotBuiltError
from tests.config.files import load_tiny, refuse_tiny


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"fp32_allreduce": True}, "fp32"),
        ({"communication_data_type": "fp16"}, "fp16"),
        ({"communication_data_type": "bfp16"}, "bf16"),
        ({"gradient_compression": "bf16"}, "bf16"),
        ({"gradient_compression": "fp16", "communication_data_type": "fp16"}, "fp16"),
    ],
)
def test_the_format_of_gradients_between_ranks(change: dict[str, object], expected: str | None) -> None:
    assert choose_communication_type(load_tiny(**change)) == expected


@pytest.mark.parametrize("method", ["auto", "powersgd", "local_update", "onebit_adam", "zero_one_adam", "onebit_lamb"])
@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"zero_optimization": {"stage": 1}}, "zero_optimization.stage above 0 (set stage: 0)"),
        ({"model_parallel_size": 2, "processes": 2}, "model_parallel_size above 1 (set 1)"),
        ({"pipe_parallel_size": 2, "processes": 2}, "pipe_parallel_size above 1 (set 1)"),
        ({"precision": "fp16"}, "precision fp16 (set bfloat16)"),
        ({"use_bnb_optimizer": True}, "use_bnb_optimizer (set it to false)"),
        ({"prescale_gradients": True}, "prescale_gradients (set it to false)"),
        ({"gradient_predivide_factor": 2.0}, "gradient_predivide_factor (remove it)"),
    ],
)
def test_what_a_compression_does_not_go_with(method: str, change: dict[str, object], remedy: str) -> None:
    config = load_tiny(**{"zero_optimization": {"stage": 0}, "gradient_compression": method, **change})
    with pytest.raises(NotBuiltError) as refused:
        require_trainable(config)
    assert f"gradient_compression: {method} with {remedy}" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"gradient_compression": "bf16", "fp32_allreduce": True}, "fp32_allreduce"),
        ({"gradient_compression": "fp16", "communication_data_type": "bf16"}, "communication_data_type bf16"),
        ({"gradient_compression": "powersgd", "communication_data_type": "bf16"}, "communication_data_type"),
    ],
)
def test_two_formats_contradict(change: dict[str, object], named: str) -> None:
    (problem,) = list_unsupported(load_tiny(**{"zero_optimization": {"stage": 0}, **change}))
    assert named in problem


def test_a_word_that_is_no_compression_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'none', 'auto', 'bf16', 'fp16', 'powersgd', 'local_update', "):
        load_tiny(gradient_compression="zip")


@pytest.mark.parametrize("kind", ["OneBitAdam", "ZeroOneAdam", "OneBitLamb"])
def test_the_optimizer_s_type_names_the_method_too(kind: str) -> None:
    config = load_tiny(optimizer={"type": kind, "params": {"lr": 0.001}}, gradient_clipping=0.0)
    method = config.gradient_compression
    by_method = load_tiny(gradient_compression=method, gradient_clipping=0.0)
    assert by_method.optimizer_type == config.optimizer_type == kind.lower()
    require_trainable(config)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["none", "bf16", "powersgd", "local_update"]),
        ({"precision": "bfloat16"}, ["none", "powersgd", "local_update"]),
        ({"communication_data_type": "fp16"}, ["none", "local_update"]),
        ({"fp32_allreduce": True}, ["none", "powersgd", "local_update"]),
        ({"gradient_compression": "onebit_adam", "gradient_clipping": 0.0}, ["onebit_adam"]),
    ],
)
def test_auto_chooses_from_what_the_configuration_goes_with(change: dict[str, object], expected: list[str]) -> None:
    config = load_tiny(**{"gradient_compression": "auto", "zero_optimization": {"stage": 0}, **change})
    require_trainable(config)
    assert list_candidates(config) == expected


def test_auto_goes_with_neither_a_1_bit_optimizer_nor_forced_flat_masters_nor_sparse_gradients() -> None:
    optimizer = {"type": "OneBitAdam", "params": {"lr": 0.001}}
    assert "remove one of the two" in refuse_tiny(optimizer=optimizer, gradient_compression="auto")
    config = load_tiny(gradient_compression="auto", precision="bfloat16", flat_master_weights=True)
    with pytest.raises(NotBuiltError, match="not built with gradient_compression auto; leave the key out"):
        Implementations.choose(config, "cpu")
    (problem,) = list_unsupported(load_tiny(gradient_compression="auto", sparse_gradients="auto"))
    assert "gradient_compression: auto (set none, bf16 or fp16)" in problem


def test_two_methods_contradict() -> None:
    optimizer = {"type": "OneBitAdam", "params": {"lr": 0.001}}
    assert "remove one of the two" in refuse_tiny(optimizer=optimizer, gradient_compression="powersgd")
    optimizer = {"type": "SGD", "params": {"lr": 0.001}}
    assert "set optimizer.type: OneBitLamb" in refuse_tiny(optimizer=optimizer, gradient_compression="onebit_lamb")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"train_iters": 1000}, 200),
        ({"train_iters": 1000, "lr_decay_iters": 1000, "warmup": 0.3}, 300),
        ({"optimizer": {"type": "OneBitAdam", "params": {"lr": 0.001, "freeze_step": 7}}}, 7),
        ({"optimizer": {"type": "ZeroOneAdam", "params": {"lr": 0.001, "var_freeze_step": 9}}}, 9),
    ],
)
def test_compression_waits_for_the_warm_up(change: dict[str, object], expected: int) -> None:
    config = load_tiny(**change)
    assert choose_one_bit_warmup(config) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"train_iters": 250}, LocalUpdateSettings(start_step=50, every=10, momentum=0.7)),
        ({"train_iters": 1000}, LocalUpdateSettings(start_step=200, every=40, momentum=0.7)),
        ({"train_iters": 100_000}, LocalUpdateSettings(start_step=20_000, every=50, momentum=0.9)),
        ({"train_iters": 3, "warmup": 0.0}, LocalUpdateSettings(start_step=1, every=1, momentum=0.0)),
        (
            {"train_iters": 250, "local_update_start_step": 0, "local_update_steps": 5, "local_update_momentum": 0.5},
            LocalUpdateSettings(start_step=0, every=5, momentum=0.5),
        ),
    ],
)
def test_local_updates_have_twenty_outer_steps_and_momentum_for_so_many(
    change: dict[str, object], expected: LocalUpdateSettings
) -> None:
    config = load_tiny(**change, gradient_compression="local_update")
    assert choose_local_update(config) == expected
    assert any(f"an outer step every {expected.every} " in notice for notice in config.notices)


def test_clipping_by_a_norm_that_no_rank_knows_is_refused() -> None:
    (problem,) = list_unsupported(load_tiny(gradient_compression="onebit_adam", gradient_clipping=1.0))
    assert "gradient_clipping above 0 (set 0.0)" in problem
    by_type = {"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3}}}
    (problem,) = list_unsupported(load_tiny(**by_type))
    assert problem == "optimizer.type: OneBitAdam with gradient_clipping above 0, 1.0 by default, (set 0.0)"


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"zero_optimization": {"stage": 1}}, "zero_optimization.stage above 0 (set stage: 0)"),
        ({"pipe_parallel_size": 2, "processes": 2}, "pipe_parallel_size above 1 (set 1)"),
        ({"gradient_compression": "powersgd"}, "gradient_compression: powersgd (set none, bf16 or fp16)"),
        ({"no_weight_tying": False}, "set no_weight_tying: true, or auto"),
    ],
)
def test_what_sparse_gradients_do_not_go_with(change: dict[str, object], remedy: str) -> None:
    problems = list_unsupported(load_tiny(**{"sparse_gradients": True, **change}))
    assert any(problem.startswith("sparse_gradients: true with ") and remedy in problem for problem in problems)


def test_auto_goes_with_tied_embeddings() -> None:
    assert list_unsupported(load_tiny(sparse_gradients="auto", no_weight_tying=False)) == []
