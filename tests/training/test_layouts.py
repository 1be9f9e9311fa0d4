"""Every parallel layout learns what one process learns: losses and gradient norms of 20 steps, real gloo processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.training.layouts import run_layouts

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
LEARNED: dict[str, Any] = {**NEOX, "gpt_j_residual": False, "pos_emb": "learned"}


def zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}}


TENSOR = {"model_parallel_size": 2}
SEQUENCE = {**TENSOR, "sequence_parallel": True}
LAYOUTS: dict[int, dict[str, dict[str, Any]]] = {
    1: {
        "neox": NEOX,
        "llama": LLAMA,
        "learned": LEARNED,
        "neox-recomputed": {**NEOX, "checkpoint_activations": True, "checkpoint_num_layers": 2},
        "neox-gas4": {**NEOX, "gradient_accumulation_steps": 4},
    },
    2: {
        "neox-dp2": NEOX,
        "neox-tp2": {**NEOX, **TENSOR},
        "neox-tp2-recomputed": {**NEOX, **SEQUENCE, "checkpoint_activations": True, "checkpoint_num_layers": 1},
        "neox-sp2-gas4": {**NEOX, **SEQUENCE, "gradient_accumulation_steps": 4},
        "llama-tp2": {**LLAMA, **TENSOR},
        "llama-sp2": {**LLAMA, **SEQUENCE, **zero(1)},
        "learned-sp2": {**LEARNED, **SEQUENCE},
        "neox-dp2-zero1": {**NEOX, **zero(1)},
        "neox-dp2-zero2": {**NEOX, **zero(2)},
        "neox-dp2-zero3": {**NEOX, **zero(3)},
    },
    4: {
        "neox-tp2-dp2": {**NEOX, **TENSOR},
        "neox-tp4": {**NEOX, "model_parallel_size": 4},
        "llama-sp2-dp2-zero1": {**LLAMA, **SEQUENCE, **zero(1)},
        "neox-tp2-dp2-zero2": {**NEOX, **TENSOR, **zero(2)},
        "neox-sp2-dp2-zero3": {**NEOX, **SEQUENCE, **zero(3)},
    },
}
"""By number of processes; a name begins with its model, the reference."""


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Losses and norms of every layout."""
    folder = tmp_path_factory.mktemp("layouts")
    for size, layouts in LAYOUTS.items():
        job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": layouts}
        file = folder / f"job-{size}.json"
        file.write_text(json.dumps(job))
        run_layouts(file, size)
    return {file.stem: json.loads(file.read_text()) for file in folder.glob("*.json") if "job" not in file.stem}


@pytest.mark.parametrize("name", [name for layouts in LAYOUTS.values() for name in layouts if "-" in name])
def test_a_layout_learns_what_one_process_learns(trained: dict[str, dict[str, Any]], name: str) -> None:
    reference, layout = trained[name.split("-")[0]], trained[name]
    assert layout["losses"] == pytest.approx(reference["losses"], rel=1e-5)
    assert layout["norms"] == pytest.approx(reference["norms"], rel=1e-5)
    assert layout["validation"] == pytest.approx(reference["validation"], rel=1e-5)


def test_the_reference_learns(trained: dict[str, dict[str, Any]]) -> None:
    for model in ("neox", "llama", "learned"):
        losses = trained[model]["losses"]
        assert len(losses) == STEPS
        assert losses[-1] < losses[0] - 0.5
