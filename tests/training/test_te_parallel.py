"""Transformer Engine cut over two tensor-parallel ranks against one process: two processes on one GPU, over gloo.

NCCL takes one process a GPU; gloo carries CUDA tensors, so that the arithmetic and the groups are the real ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks

pytestmark = pytest.mark.gpu

STEPS = 20
MODEL: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_layers": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
    "train_batch_size": 4,
    "train_micro_batch_size_per_gpu": None,
    "precision": "bfloat16",
    "bias_gelu_fusion": True,
    "zero_optimization": {"stage": 1},
    "flat_master_weights": False,
    "loss_chunk_tokens": 0,
    "torch_compile": False,
}
SERIAL: dict[str, Any] = {**MODEL, "te_mha": True, "te_layernorm_mlp": True}
GATED: dict[str, Any] = {
    **SERIAL,
    "gpt_j_residual": True,
    "norm": "te_rmsnorm",
    "activation": "swiglu",
    "intermediate_size": 768,
    "num_kv_heads": 2,
}
LINEAR: dict[str, Any] = {**MODEL, "te_columnparallel": True, "te_rowparallel": True, "norm": "te_layernorm"}
FP8: dict[str, Any] = {"te_fp8": True}
RECOMPUTED: dict[str, Any] = {"checkpoint_activations": True}
BF16_REFERENCES: dict[str, dict[str, Any]] = {"serial": SERIAL, "gated": GATED, "linear": LINEAR}
REFERENCES: dict[str, dict[str, Any]] = {
    **BF16_REFERENCES,
    "serial-fp8": {**SERIAL, **FP8},
    "linear-fp8": {**LINEAR, **FP8},
    "gated-fp8": {**GATED, "te_fp8_recipe": "current", "te_fp8_first_last_layers_bf16": 1},
}
TENSOR: dict[str, Any] = {"model_parallel_size": 2}
SEQUENCE: dict[str, Any] = {**TENSOR, "sequence_parallel": True}
LAYOUTS: dict[str, dict[str, Any]] = {
    **{f"{name}/tp2": {**keys, **TENSOR} for name, keys in REFERENCES.items()},
    **{f"{name}/sp2": {**keys, **SEQUENCE} for name, keys in REFERENCES.items()},
    "serial/sp2-recomputed": {**SERIAL, **SEQUENCE, **RECOMPUTED},
    "serial-fp8/sp2-recomputed": {**SERIAL, **FP8, **SEQUENCE, **RECOMPUTED},
}

Curves = dict[str, dict[str, Any]]


def train(dataset: DatasetFolder, folder: Path, layouts: dict[str, dict[str, Any]], size: int) -> Curves:
    """Losses and norms by layout."""
    folder.mkdir()
    named = {name.replace("/", "-"): keys for name, keys in layouts.items()}
    job = folder / "job.json"
    job.write_text(json.dumps({"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": named}))
    run_ranks("tests.training.layout_worker", job, size)
    return {name: json.loads((folder / f"{name.replace('/', '-')}.json").read_text()) for name in layouts}


@pytest.fixture(scope="module", params=BF16_REFERENCES)
def curves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, dataset: DatasetFolder) -> Curves:
    """Every layout's of one model."""
    model = request.param
    folder = tmp_path_factory.mktemp("te-parallel")
    alone = {name: keys for name, keys in REFERENCES.items() if name.startswith(model)}
    cut = {name: keys for name, keys in LAYOUTS.items() if name.startswith(model)}
    return {**train(dataset, folder / "alone", alone, 1), **train(dataset, folder / "cut", cut, 2)}


def test_a_cut_model_learns_what_the_whole_one_does(curves: Curves) -> None:
    for layout in set(curves) & set(LAYOUTS):
        name = layout.split("/")[0]
        in_fp8 = name.endswith("fp8")
        found, wanted = curves[layout], curves[name]
        print(layout, max(abs(a - b) for a, b in zip(found["losses"], wanted["losses"], strict=True)))
        assert found["losses"][0] == pytest.approx(wanted["losses"][0], abs=0.02 if in_fp8 else 0.005), layout
        assert found["losses"] == pytest.approx(wanted["losses"], abs=0.1 if in_fp8 else 0.03), layout
        assert found["norms"][0] == pytest.approx(wanted["norms"][0], rel=0.05 if in_fp8 else 0.01), layout
        assert found["losses"][-1] < found["losses"][0] - 0.2, layout
