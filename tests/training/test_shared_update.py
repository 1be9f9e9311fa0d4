"""Updates of ranks that share a model, with every kind of optimizer: one norm, one clip, one decision for all."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

STEPS, POISONED_AT = 5, 2
MODEL: dict[str, Any] = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": None, "gradient_clipping": 0.5}
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "tensor": ({"model_parallel_size": 2, "sequence_parallel": True}, (0, 1, 2, 3)),
    "pipeline": ({"pipe_parallel_size": 2, "no_weight_tying": False}, (0, 1)),
}
"""With the ZeRO stages each goes with. The tied embeddings of a pipeline are held twice and count once."""
OPTIMIZERS: dict[str, dict[str, Any]] = {
    f"{layout}-{precision}-zero{stage}": {
        **MODEL,
        **keys,
        "precision": precision,
        "zero_optimization": {"stage": stage},
        "poison_at": POISONED_AT,
    }
    for layout, (keys, stages) in LAYOUTS.items()
    for precision in ("fp32", "bfloat16")
    for stage in stages
}
FP16 = {"enabled": True, "loss_scale": 128}
OPTIMIZERS |= {
    f"{layout}-fp16-zero{stage}": {**OPTIMIZERS[f"{layout}-fp32-zero{stage}"], "precision": "fp16", "fp16": FP16}
    for layout in LAYOUTS
    for stage in (0, 1)
}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What every optimizer did, and data-parallel ranks with whole matrices in fp32 (``whole-…``)."""
    folder = tmp_path_factory.mktemp("updates")
    whole = {"whole-tensor": MODEL, "whole-pipeline": {**MODEL, "no_weight_tying": False}}
    # Engines of ZeRO 3 change DeepSpeed's state for those after them.
    layouts = whole | dict(sorted(OPTIMIZERS.items(), key=lambda item: item[0].endswith("zero3")))
    job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": layouts}
    (folder / "job.json").write_text(json.dumps(job))
    run_ranks("tests.training.layout_worker", folder / "job.json", 2)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in layouts}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_parameter_counts_once_in_the_norm(trained: dict[str, dict[str, Any]], name: str) -> None:
    whole = trained[f"whole-{name.split('-')[0]}"]
    norms, reference = trained[name]["norms"][:POISONED_AT], whole["norms"][:POISONED_AT]
    assert norms == pytest.approx(reference, rel=1e-5 if "fp32" in name else 0.02)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_gradient_that_is_not_finite_on_one_rank_skips_the_update_on_all(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    seen = trained[name]
    assert seen["applied"] == [step != POISONED_AT for step in range(STEPS)]
    assert not math.isfinite(seen["norms"][POISONED_AT])
    assert all(math.isfinite(value) for value in (*seen["losses"], *seen["norms"][POISONED_AT + 1 :]))
