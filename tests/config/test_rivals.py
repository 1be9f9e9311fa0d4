"""Keys that say the same, or leave one another nothing to do."""

from __future__ import annotations

import pytest

from tests.config.files import load_tiny, refuse_tiny


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            {"sparsity_config": {"num_local_blocks": 3, "num_sliding_window_blocks": 5}},
            "which say the same; remove one",
        ),
        ({"fp32_allreduce": True, "communication_data_type": "fp16"}, "communication_data_type is fp16; remove one"),
        ({"optimizer": {"type": "SGD", "params": {"lr": 0.1, "nesterov": True}}}, "nesterov: true needs a momentum"),
        ({"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": -1.0}}}, "optimizer.params.momentum is -1.0"),
        ({"optimizer": {"type": "Muon", "params": {"lr": 0.1, "momentum": 1.5}}}, "optimizer.params.momentum is 1.5"),
    ],
)
def test_one_sentence_names_them(keys: dict[str, object], sentence: str) -> None:
    assert sentence in refuse_tiny(**keys)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"partition_activations": True}, "partition_activations has no effect here: checkpoint_activations is false"),
        ({"checkpoint_in_cpu": True}, "checkpoint_in_cpu has no effect here: checkpoint_activations is false"),
        ({"checkpoint_activations": True, "partition_activations": True}, "here: model_parallel_size is 1"),
        ({"sequence_parallel": True}, "sequence_parallel has no effect here: model_parallel_size is 1"),
        (
            {"sliding_window_width": 8, "attention_config": [[["local"], "all"]]},
            "sliding_window_width has no effect here: every layer is local",
        ),
    ],
)
def test_a_switch_without_effect_is_told(keys: dict[str, object], reason: str) -> None:
    assert any(reason in notice for notice in load_tiny(**keys).notices)
    assert not any(reason in notice for notice in load_tiny().notices)


def test_muon_takes_its_number_of_iterations() -> None:
    config = load_tiny(optimizer={"type": "Muon", "params": {"lr": 0.1, "ns_steps": 3}})
    assert dict(config.optimizer or {})["params"]["ns_steps"] == 3
