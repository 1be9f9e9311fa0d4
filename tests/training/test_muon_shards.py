"""Muon over matrices that ZeRO cuts: the training of whole matrices, at every stage and with pipeline stages."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from neox_train.config.layout import DatasetFolder
from neox_train.training.muon import MuonWithAdamW
from neox_train.training.muon_shards import MatrixPart, ShardedMatrices
from neox_train.training.parameter_groups import STEPPED_BY_MUON
from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

STEPS, SAVED_AT = 8, 4
MODEL: dict[str, Any] = {
    "train_batch_size": 6,
    "train_micro_batch_size_per_gpu": None,
    "gradient_clipping": 0.5,
    "num_layers": 4,
    "optimizer": {"type": "Muon", "params": {"lr": 0.02}},
}


def zero(stage: int, **changes: Any) -> dict[str, Any]:
    return {**MODEL, "zero_optimization": {"stage": stage}, **changes}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Losses and norms by layout."""
    folder = tmp_path_factory.mktemp("muon")
    saved = str(folder / "zero1-dp2" / "checkpoints" / f"step_{SAVED_AT:08}")
    pipeline = {"pipe_parallel_size": 2, "gradient_accumulation_steps": 2}
    layouts = {
        2: {
            "whole-dp2": zero(0),
            "zero1-dp2": zero(1, save_at=SAVED_AT),
            "zero2-dp2": zero(2, zero_optimization={"stage": 2, "round_robin_gradients": True}),
            "zero1-pp2": zero(1, **pipeline),
            "zero3-dp2": zero(3),
        },
        # Three ranks cut other matrices than two, some of them twice.
        3: {"whole-dp3": zero(0), "zero1-dp3": zero(1), "zero1-dp3-resumed": zero(1, restore=saved)},
    }
    for size, named in layouts.items():
        job = folder / f"job-{size}.json"
        job.write_text(
            json.dumps({"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": named})
        )
        run_ranks("tests.training.layout_worker", job, size)
    return {name: json.loads((folder / f"{name}.json").read_text()) for named in layouts.values() for name in named}


@pytest.mark.parametrize("name", ["zero1-dp2", "zero2-dp2", "zero3-dp2", "zero1-pp2", "zero1-dp3", "whole-dp3"])
def test_cut_matrices_take_the_steps_of_whole_ones(trained: dict[str, dict[str, Any]], name: str) -> None:
    found, whole = trained[name], trained["whole-dp2"]
    assert len(whole["losses"]) == STEPS and whole["losses"][-1] < whole["losses"][0] - 0.3
    # Muon rounds its input to 8 bits of mantissa: a last bit of a gradient may move a whole element of a step, so that
    # even whole matrices on three ranks in the place of two go another way by as much from the second step on.
    assert found["losses"][:2] == pytest.approx(whole["losses"][:2], rel=1e-5)
    assert found["losses"] == pytest.approx(whole["losses"], rel=1e-3)
    assert found["norms"] == pytest.approx(whole["norms"], rel=2e-2)
    assert found["validation"] == pytest.approx(whole["validation"], rel=1e-3)


def test_momentum_is_cut_anew_for_another_number_of_ranks(trained: dict[str, dict[str, Any]]) -> None:
    assert trained["zero1-dp3-resumed"]["losses"] == pytest.approx(trained["zero1-dp2"]["losses"][SAVED_AT:], rel=1e-3)


def test_matrices_in_a_flat_tensor_take_the_very_steps_of_their_own() -> None:
    shapes = [torch.Size([128, 64]), torch.Size([64, 64])]
    numbers = torch.Generator().manual_seed(1)
    weights = [torch.randn(shape, generator=numbers) for shape in shapes]
    matrices = [torch.nn.Parameter(weight.clone()) for weight in weights]
    flat = torch.nn.Parameter(torch.cat([weight.flatten() for weight in weights]))
    group = {STEPPED_BY_MUON: True, "weight_decay": 0.1}
    alone = MuonWithAdamW([{"params": matrices, **group}], lr=0.01)
    joined = MuonWithAdamW([{"params": [torch.nn.Parameter(weights[0])], **group}], lr=0.01)
    joined.param_groups[0]["params"] = [flat]
    parts = [
        MatrixPart(shape=shape, start=0, length=shape.numel(), offset=offset, is_cut=False)
        for shape, offset in zip(shapes, (0, shapes[0].numel()), strict=True)
    ]
    joined.matrices = ShardedMatrices({flat: parts}, None)
    for _ in range(3):
        for matrix in matrices:
            matrix.grad = torch.randn(matrix.shape, generator=numbers)
        flat.grad = torch.cat([matrix.grad.flatten() for matrix in matrices if matrix.grad is not None])
        alone.step()
        joined.step()
    assert torch.equal(flat, torch.cat([matrix.flatten() for matrix in matrices]))
