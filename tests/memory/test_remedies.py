"""Remedies: concrete, proved by the estimate, and true of the configuration they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neox_train.config.cluster import Cluster, load_cluster
from neox_train.config.run import resolve_files
from neox_train.config.support import require_trainable
from neox_train.memory.estimate import MemoryEstimate, estimate_memory
from neox_train.memory.remedies import Remedy
from neox_train.memory.wording import word_remedies
from tests.memory.plans import make_cluster, make_config, make_gpu_cluster

LARGE = {
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_layers": 32,
    "seq_length": 2048,
    "max_position_embeddings": 2048,
    "precision": "bfloat16",
    "zero_optimization": {"stage": 1},
    "checkpoint_activations": True,
}
WIDE_BATCH = {"train_micro_batch_size_per_gpu": 64, "hidden_size": 256, "num_layers": 6, "seq_length": 64}
CASES: dict[str, tuple[dict[str, Any], Cluster, int, int]] = {
    "a large model on four GPUs": (LARGE, make_gpu_cluster(), 4, 50_257),
    "a large batch on a CPU": (WIDE_BATCH, make_cluster(memory_gib_per_process=1.2), 2, 8192),
    "a pipeline over two nodes": (
        {**LARGE, "hidden_size": 5120, "num_layers": 28, "pipe_parallel_size": 4},
        make_gpu_cluster(),
        8,
        50_257,
    ),
    "one GPU without ZeRO": (
        {**LARGE, "num_layers": 40, "hidden_size": 5120, "zero_optimization": {"stage": 0}},
        make_gpu_cluster(processes_per_node=1, gpu={"type": "H200", "memory_gib": 139.8, "compute_capability": 9.0}),
        1,
        50_257,
    ),
    "long sequences": (
        {**LARGE, "num_layers": 16, "seq_length": 16_384, "max_position_embeddings": 16_384},
        make_gpu_cluster(),
        4,
        50_257,
    ),
    "two tensor-parallel ranks": (
        {**LARGE, "num_layers": 40, "hidden_size": 5120, "model_parallel_size": 2},
        make_gpu_cluster(),
        4,
        50_257,
    ),
    "a model beyond its machine": (
        {**LARGE, "num_layers": 40, "hidden_size": 5120, "train_micro_batch_size_per_gpu": 4},
        make_gpu_cluster(
            executor="local",
            processes_per_node=1,
            gpu={"type": "H200", "memory_gib": 139.8, "compute_capability": 9.0},
        ),
        1,
        50_257,
    ),
    "one GPU": ({**LARGE, "num_layers": 12}, make_gpu_cluster(processes_per_node=1), 1, 50_257),
}


def _estimate(case: str) -> tuple[dict[str, Any], Cluster, MemoryEstimate]:
    overrides, cluster, world_size, vocab_size = CASES[case]
    config = make_config(world_size=world_size, vocab_size=vocab_size, **overrides)
    return overrides, cluster, estimate_memory(config, cluster)


@pytest.mark.parametrize("case", CASES)
def test_at_least_three_changes_fit(case: str) -> None:
    _, _, estimate = _estimate(case)
    assert estimate.verdict == "does_not_fit"
    assert len(estimate.remedies) >= 3
    assert len({remedy.change for remedy in estimate.remedies}) == len(estimate.remedies)
    limit = estimate.gate.refuse_above * estimate.budget
    assert all(remedy.fits and remedy.total <= limit for remedy in estimate.remedies)


@pytest.mark.parametrize("case", CASES)
def test_a_remedy_s_keys_lead_to_the_predicted_total(case: str) -> None:
    overrides, cluster, estimate = _estimate(case)
    _, _, world_size, vocab_size = CASES[case]
    for remedy in estimate.remedies:
        changed, ranks = _apply(overrides, remedy, world_size, cluster)
        again = estimate_memory(make_config(world_size=ranks, vocab_size=vocab_size, **changed), cluster)
        assert again.total == remedy.total, remedy.change
        assert again.verdict != "does_not_fit"


@pytest.mark.parametrize("case", CASES)
def test_the_global_batch_is_kept_or_said(case: str) -> None:
    overrides, cluster, estimate = _estimate(case)
    _, _, world_size, _ = CASES[case]
    before = make_config(world_size=world_size, **overrides).train_batch_size
    for remedy in estimate.remedies:
        changed, ranks = _apply(overrides, remedy, world_size, cluster)
        after = make_config(world_size=ranks, **changed).train_batch_size
        assert after == before or f"global batch {after} instead of {before}" in remedy.change


def test_a_remedy_names_its_speed_where_the_cluster_file_has_rates() -> None:
    gpu = {
        "type": "A100",
        "memory_gib": 42.0,
        "compute_capability": 8.0,
        "memory_gb_per_second": 1555,
        "peak_tflops": {"bfloat16": 312, "source": "datasheet"},
    }
    config = make_config(world_size=4, vocab_size=50_257, **LARGE)
    estimate = estimate_memory(config, make_gpu_cluster(gpu=gpu))
    one_node = [remedy for remedy in estimate.remedies if "nodes" not in remedy.keys]
    assert one_node and all((remedy.tokens_per_second_per_gpu or 0) > 100 for remedy in one_node)
    assert "tokens/s/GPU, uncalibrated" in word_remedies(estimate)
    # Between nodes nothing is predicted: the file does not name the network's bandwidth.
    assert all(remedy.tokens_per_second_per_gpu is None for remedy in estimate.remedies if "nodes" in remedy.keys)


def test_a_smaller_model_is_offered_last_and_no_change_beside_it_is_idle() -> None:
    _, _, estimate = _estimate("a model beyond its machine")
    layers = [remedy.keys.get("num_layers") for remedy in estimate.remedies]
    assert layers[0] is None and layers[1] == 20
    assert all(count is not None and count > 20 for count in layers[2:])
    _, _, estimate = _estimate("a large batch on a CPU")
    assert not any("num_layers" in remedy.keys for remedy in estimate.remedies)


def test_states_in_host_memory_are_offered_where_8_bit_ones_do_not_fit() -> None:
    overrides, cluster, world_size, vocab_size = CASES["a model beyond its machine"]
    _, _, estimate = _estimate("a model beyond its machine")
    remedy = estimate.remedies[0]
    assert remedy.keys == {"zero_optimization.stage": 2, "zero_optimization.offload_optimizer": {"device": "cpu"}}
    assert "uncalibrated" not in word_remedies(estimate) and "GiB of host memory)" in word_remedies(estimate)
    assert not any("use_bnb_optimizer" in other.keys and "offload" in str(other.keys) for other in estimate.remedies)
    changed, _ = _apply(overrides, remedy, world_size, cluster)
    require_trainable(make_config(world_size=world_size, vocab_size=vocab_size, **changed))


def test_nodes_are_counted_with_all_ways_of_cutting() -> None:
    _, cluster, estimate = _estimate("a pipeline over two nodes")
    nodes = [remedy.keys["nodes"] for remedy in estimate.remedies if "nodes" in remedy.keys]
    assert cluster.processes_per_node == 4 and nodes and min(nodes) > 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_machine_without_a_scheduler_is_not_told_to_take_more_nodes(device: str) -> None:
    case = "one GPU" if device == "cuda" else "a large batch on a CPU"
    overrides, cluster, world_size, vocab_size = CASES[case]
    config = make_config(world_size=world_size, vocab_size=vocab_size, **overrides)
    alone = estimate_memory(config, cluster.model_copy(update={"executor": "local"}))
    assert len(alone.remedies) >= 3 and all(remedy.fits for remedy in alone.remedies)
    assert not any("nodes" in remedy.keys for remedy in alone.remedies)


def test_a_pipeline_is_not_told_to_raise_zero_s_stage_beyond_one() -> None:
    _, _, estimate = _estimate("a pipeline over two nodes")
    assert all(remedy.keys.get("zero_optimization.stage", 0) <= 1 for remedy in estimate.remedies)


def test_where_nothing_fits_the_remedies_say_so() -> None:
    cluster = make_cluster(memory_gib_per_process=0.1)
    estimate = estimate_memory(make_config(), cluster)
    assert estimate.verdict == "does_not_fit"
    assert estimate.remedies
    assert not any(remedy.fits for remedy in estimate.remedies)
    assert "raise memory_gib_per_process" in word_remedies(estimate)
    gpu = {"type": "T4", "memory_gib": 1.0, "compute_capability": 7.5}
    none = estimate_memory(make_config(world_size=4), make_gpu_cluster(gpu=gpu))
    assert none.remedies and not any(remedy.fits for remedy in none.remedies)
    assert "search other layouts with `neox-train plan`" in word_remedies(none)


def test_a_run_that_fits_needs_none() -> None:
    assert estimate_memory(make_config(), make_cluster()).remedies == ()


def _apply(overrides: dict[str, Any], remedy: Remedy, world_size: int, cluster: Cluster) -> tuple[dict[str, Any], int]:
    changed = {**overrides, "zero_optimization": dict(overrides.get("zero_optimization", {"stage": 0}))}
    ranks = world_size
    for key, value in remedy.keys.items():
        if key == "nodes":
            ranks = value * cluster.processes_per_node
        elif key.startswith("zero_optimization."):
            changed["zero_optimization"][key.removeprefix("zero_optimization.")] = value
        else:
            changed[key] = value
    return changed, ranks


def test_words_name_the_micro_batch_that_the_keys_set(repository: Path) -> None:
    cluster = load_cluster(repository / "cluster_profiles" / "a100" / "cluster.yaml")
    config = resolve_files([repository / "configs" / "6-7B.yml"], cluster, nodes=1).with_vocab_size(50_257)
    named = [remedy for remedy in estimate_memory(config, cluster).remedies if "micro-batch" in remedy.change]
    # More nodes make what a rank has of the global batch smaller than the micro-batch.
    assert any("nodes" in remedy.keys for remedy in named)
    for remedy in named:
        size = remedy.keys["train_micro_batch_size_per_gpu"]
        assert f"micro-batch {size}" in remedy.change
