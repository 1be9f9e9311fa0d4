"""Updates of tensor-parallel ranks in every kind of optimizer: one norm, one clip and one decision for all of them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.training.layouts import run_layouts

pytestmark = pytest.mark.distributed

STEPS, POISONED_AT = 5, 2
MODEL: dict[str, Any] = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": None, "gradient_clipping": 0.5}
SEQUENCE: dict[str, Any] = {**MODEL, "model_parallel_size": 2, "sequence_parallel": True, "poison_at": POISONED_AT}
BFLOAT16 = {"precision": "bfloat16"}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    f"{precision}-zero{stage}": {"zero_optimization": {"stage": stage}, **keys}
    for precision, keys in (("fp32", {}), ("bf16", BFLOAT16))
    for stage in (0, 1, 2, 3)
}


@pytest.fixture(scope="module")
def trained(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What every optimizer did, and data-parallel ranks with whole matrices in fp32 (``whole``)."""
    folder = tmp_path_factory.mktemp("updates")
    layouts = {"whole": MODEL, **{name: {**SEQUENCE, **keys} for name, keys in OPTIMIZERS.items()}}
    job = {"dataset": str(dataset.path), "results": str(folder), "steps": STEPS, "layouts": layouts}
    (folder / "job.json").write_text(json.dumps(job))
    run_layouts(folder / "job.json", 2)
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in layouts}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_parameter_counts_once_in_the_norm(trained: dict[str, dict[str, Any]], name: str) -> None:
    norms, reference = trained[name]["norms"][:POISONED_AT], trained["whole"]["norms"][:POISONED_AT]
    assert norms == pytest.approx(reference, rel=1e-5 if "fp32" in name else 0.02)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_gradient_that_is_not_finite_on_one_rank_skips_the_update_on_all(
    trained: dict[str, dict[str, Any]], name: str
) -> None:
    seen = trained[name]
    assert seen["applied"] == [step != POISONED_AT for step in range(STEPS)]
    assert not math.isfinite(seen["norms"][POISONED_AT])
    assert all(math.isfinite(value) for value in (*seen["losses"], *seen["norms"][POISONED_AT + 1 :]))
