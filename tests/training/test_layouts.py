"""Every parallel layout learns what one process learns: losses and gradient norms of 20 steps, real gloo processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

STEPS = 20
GLOBAL_BATCH = 8
NEOX: dict[str, Any] = {
    "train_batch_size": GLOBAL_BATCH,
    "train_micro_batch_size_per_gpu": None,
    "gradient_clipping": 0.5,
    "gpt_j_residual": True,
    "num_layers": 4,
}
LLAMA: dict[str, Any] = {
    "train_batch_size": GLOBAL_BATCH,
    "train_micro_batch_size_per_gpu": None,
    "norm": "rmsnorm",
    "activation": "swiglu",
    "mlp_multiple_of": 4,
    "num_kv_heads": 2,
    "use_bias_in_attn_linear": False,
    "use_bias_in_mlp": False,
    "no_weight_tying": False,
    "num_layers": 4,
}
LEARNED: dict[str, Any] = {
    **NEOX,
    "gpt_j_residual": False,
    "pos_emb": "learned",
    "use_mup": True,
    "mup_base_hidden_size": 32,
    "mup_embedding_mult": 2.0,
}


def zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}}


TENSOR = {"model_parallel_size": 2}
PIPELINE = {"pipe_parallel_size": 2}
SEQUENCE = {**TENSOR, "sequence_parallel": True}
WINDOWED: dict[str, Any] = {
    **NEOX,
    "pos_emb": "alibi",
    "sliding_window_width": 20,
    "attention_config": [[["global", "local"], 2]],
    "sparsity_config": {"block": 8, "num_local_blocks": 4},
    "eod_mask_loss": True,
    "no_weight_tying": False,
}
DOCUMENTS: dict[str, Any] = {**LLAMA, "document_attention": True, "eod_mask_loss": True}
SINUSOIDAL: dict[str, Any] = {**NEOX, "pos_emb": "sinusoidal"}
ANEW: dict[str, Any] = {**LEARNED, "document_attention": True}
STEADY: dict[str, Any] = {**SINUSOIDAL, "document_attention": True}
EIGHT: dict[str, Any] = {**NEOX, "use_bnb_optimizer": True}
MUON: dict[str, Any] = {**NEOX, "optimizer": {"type": "Muon", "params": {"lr": 0.001}}}
REFERENCES = {
    "neox": NEOX,
    "llama": LLAMA,
    "learned": LEARNED,
    "windowed": WINDOWED,
    "sinusoidal": SINUSOIDAL,
    "documents": DOCUMENTS,
    "eight": EIGHT,
    "muon": MUON,
}
LOOSER = {"eight": 5e-3, "muon": 5e-2}
"""Tolerances where the arithmetic itself is cut elsewhere: blocks of 8-bit states, and Muon's steps in bf16."""
MORE_REFERENCES = {"anew": ANEW, "steady": STEADY}
SELECTIVE = {"checkpoint_activations": True, "checkpoint_granularity": "selective"}
RECOMPUTED = {"checkpoint_activations": True, "checkpoint_num_layers": 1}
LAYOUTS: dict[int, dict[str, dict[str, Any]]] = {
    1: {
        "neox-recomputed": {**NEOX, **RECOMPUTED, "checkpoint_num_layers": 2},
        "neox-gas4": {**NEOX, "gradient_accumulation_steps": 4},
    },
    2: {
        "neox-dp2": NEOX,
        "neox-tp2-shared-inputs": {**NEOX, **TENSOR, **RECOMPUTED, "partition_activations": True},
        "llama-sp2-zero1": {**LLAMA, **SEQUENCE, **zero(1)},
        "neox-pp2": {**NEOX, **PIPELINE},
        "llama-pp2-selective": {**LLAMA, **PIPELINE, **SELECTIVE, "gradient_accumulation_steps": 2},
        "documents-pp2": {**DOCUMENTS, **PIPELINE, **RECOMPUTED},
        "neox-dp2-zero1": {**NEOX, **zero(1)},
        "neox-dp2-zero2": {**NEOX, **zero(2)},
        "neox-dp2-zero3": {**NEOX, **zero(3)},
        "eight-pp2-zero1": {**EIGHT, **PIPELINE, **zero(1)},
    },
    4: {
        "neox-tp2-dp2": {**NEOX, **TENSOR},
        "llama-pp2-sp2-zero1": {**LLAMA, **PIPELINE, **SEQUENCE, **zero(1), "gradient_accumulation_steps": 4},
        "neox-sp2-dp2-zero3": {**NEOX, **SEQUENCE, **zero(3)},
        "windowed-pp2-tp2": {**WINDOWED, **PIPELINE, **TENSOR},
        # Stages that hold other kinds of parameters have other numbers of optimizer groups.
        "learned-pp4-zero1": {**LEARNED, "pipe_parallel_size": 4, **zero(1)},
        "muon-pp4-zero1": {**MUON, "pipe_parallel_size": 4, **zero(1)},
    },
}
"""By number of processes; a name begins with its model, the reference."""
MORE: dict[int, dict[str, dict[str, Any]]] = {
    2: {
        "neox-tp2-recomputed": {**NEOX, **SEQUENCE, **RECOMPUTED},
        "llama-pp2-recomputed": {**LLAMA, **PIPELINE, **RECOMPUTED, "gradient_accumulation_steps": 2},
        "documents-sp2-recomputed": {**DOCUMENTS, **SEQUENCE, **RECOMPUTED},
        "neox-sp2-gas4": {**NEOX, **SEQUENCE, "gradient_accumulation_steps": 4},
        "llama-tp2": {**LLAMA, **TENSOR},
        "learned-sp2": {**LEARNED, **SEQUENCE},
        "anew-sp2": {**ANEW, **SEQUENCE},
        "anew-pp2": {**ANEW, **PIPELINE, "gradient_accumulation_steps": 2},
        "steady-sp2": {**STEADY, **SEQUENCE},
        "neox-tp2-selective": {**NEOX, **TENSOR, **SELECTIVE},
        "llama-sp2-selective": {**LLAMA, **SEQUENCE, **SELECTIVE},
        "eight-tp2-zero1": {**EIGHT, **TENSOR, **zero(1)},
        "eight-sp2": {**EIGHT, **SEQUENCE, **zero(0)},
        "eight-sp2-zero2": {**EIGHT, **SEQUENCE, **zero(2)},
        "eight-sp2-zero3": {**EIGHT, **SEQUENCE, **zero(3)},
        "neox-pp2-zero1-gas4": {**NEOX, **PIPELINE, **zero(1), "gradient_accumulation_steps": 4},
    },
    4: {
        "neox-tp2-dp2-sparse": {**NEOX, **TENSOR, **zero(0), "sparse_gradients": True},
        "neox-sp2-dp2-sparse": {**NEOX, **SEQUENCE, **zero(0), "sparse_gradients": True},
        "neox-pp2-dp2": {**NEOX, **PIPELINE, "gradient_accumulation_steps": 2},
        "sinusoidal-pp2-sp2": {**SINUSOIDAL, **PIPELINE, **SEQUENCE},
        "anew-pp2-sp2": {**ANEW, **PIPELINE, **SEQUENCE, "gradient_accumulation_steps": 2},
        "documents-pp2-tp2-zero1": {**DOCUMENTS, **PIPELINE, **TENSOR, **zero(1)},
        "learned-pp2-tp2": {**LEARNED, **PIPELINE, **TENSOR},
        "eight-pp2-tp2-zero1": {**EIGHT, **PIPELINE, **TENSOR, **zero(1)},
        "eight-pp4-zero1": {**EIGHT, "pipe_parallel_size": 4, **zero(1)},
        "neox-pp4": {**NEOX, "pipe_parallel_size": 4, "gradient_accumulation_steps": 4},
        "neox-tp4": {**NEOX, "model_parallel_size": 4},
        "neox-tp2-dp2-zero2": {**NEOX, **TENSOR, **zero(2)},
    },
}
"""The long lane's."""

Curves = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def reference(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> Curves:
    """Losses and norms of each model in one process."""
    return _train({1: REFERENCES}, dataset, tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> Curves:
    """Losses and norms of every layout."""
    return _train(LAYOUTS, dataset, tmp_path_factory.mktemp("layouts"))


@pytest.fixture(scope="module")
def trained_more(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> Curves:
    """Losses and norms of the long lane's layouts, and of the models that only they have."""
    return _train({1: MORE_REFERENCES, **MORE}, dataset, tmp_path_factory.mktemp("more"))


def _train(layouts: dict[int, dict[str, dict[str, Any]]], dataset: DatasetFolder, folder: Path) -> Curves:
    for size, named in layouts.items():
        job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": named}
        file = folder / f"job-{size}.json"
        file.write_text(json.dumps(job))
        run_ranks("tests.training.layout_worker", file, size)
    return {name: json.loads((folder / f"{name}.json").read_text()) for named in layouts.values() for name in named}


def _names(layouts: dict[int, dict[str, dict[str, Any]]]) -> list[str]:
    return [name for named in layouts.values() for name in named]


def _check(reference: Curves, layout: dict[str, Any], name: str) -> None:
    model = name.split("-")[0]
    expected = reference[model]
    assert layout["norms"][0] == pytest.approx(expected["norms"][0], rel=1e-5)
    for part in ("losses", "norms", "validation"):
        assert layout[part] == pytest.approx(expected[part], rel=LOOSER.get(model, 1e-5))


@pytest.mark.parametrize("name", _names(LAYOUTS))
def test_a_layout_learns_what_one_process_learns(reference: Curves, trained: Curves, name: str) -> None:
    _check(reference, trained[name], name)


@pytest.mark.full
@pytest.mark.parametrize("name", _names(MORE))
def test_more_layouts_learn_what_one_process_learns(reference: Curves, trained_more: Curves, name: str) -> None:
    _check({**reference, **trained_more}, trained_more[name], name)


def test_the_reference_learns(reference: Curves) -> None:
    for model in REFERENCES:
        losses = reference[model]["losses"]
        assert len(losses) == STEPS
        # Sinusoidal positions, of size 1, drown new embeddings in the first steps.
        assert losses[-1] < losses[0] - 0.3 or model == "sinusoidal"
