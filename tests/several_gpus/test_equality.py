"""Every way to cut a training over ranks, in bf16, against one rank: the same losses within what bf16 rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from neox_train.config.layout import DatasetFolder
from tests.gloo import run_ranks
from tests.several_gpus.conftest import ON_GPUS, require_ranks

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

STEPS, SAVED_AT = 20, 10
MODEL: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_layers": 4,
    "seq_length": 128,
    "max_position_embeddings": 128,
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": None,
    "precision": "bfloat16",
    "gradient_clipping": 1.0,
    "deterministic": True,
    # Slow enough that what bf16 rounds does not grow along the way.
    "optimizer": {"type": "Adam", "params": {"lr": 2e-4}},
    "zero_optimization": {"stage": 1},
}
TE: dict[str, Any] = {"te_mha": True, "te_layernorm_mlp": True}
FP8: dict[str, Any] = {**TE, "te_fp8": True}
TENSOR: dict[str, Any] = {"model_parallel_size": 2}
SEQUENCE: dict[str, Any] = {**TENSOR, "sequence_parallel": True}
PIPELINE: dict[str, Any] = {"pipe_parallel_size": 2, "gradient_accumulation_steps": 2}
EIGHT_BIT: dict[str, Any] = {"use_bnb_optimizer": True}


def zero(stage: int) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}}


REFERENCES: dict[str, dict[str, Any]] = {"plain": {}, **({"te": TE, "fp8": FP8} if ON_GPUS else {})}
LAYOUTS: dict[int, dict[str, dict[str, Any]]] = {
    2: {
        "plain/dp2": zero(0),
        "plain/dp2-zero1": zero(1),
        "plain/dp2-zero2": zero(2),
        "plain/tp2": TENSOR,
        "plain/sp2": SEQUENCE,
        "plain/pp2": PIPELINE,
        # Last of its processes: DeepSpeed's linear function stays in the place of torch's.
        "plain/dp2-zero3": zero(3),
    },
    4: {
        "plain/tp2-pp2": {**TENSOR, **PIPELINE},
        "plain/dp2-tp2-zero1": {**TENSOR, **zero(1)},
        "plain/dp2-pp2-zero1": {**PIPELINE, **zero(1)},
    },
    8: {"plain/dp2-tp2-pp2": {**TENSOR, **PIPELINE}, "plain/dp2-sp2-pp2-zero1": {**SEQUENCE, **PIPELINE, **zero(1)}},
}
if ON_GPUS:
    for name in ("te", "fp8"):
        LAYOUTS[2] = {f"{name}/tp2": TENSOR, f"{name}/sp2": SEQUENCE, f"{name}/dp2-zero1": zero(1), **LAYOUTS[2]}

Curves = dict[str, dict[str, Any]]


def train(dataset: DatasetFolder, folder: Path, layouts: dict[str, dict[str, Any]], ranks: int) -> Curves:
    """Losses and norms by layout."""
    folder.mkdir(exist_ok=True)
    named = {name.replace("/", "-"): {**MODEL, **keys} for name, keys in layouts.items()}
    job = folder / f"job-{ranks}.json"
    job.write_text(
        json.dumps(
            {
                "dataset": str(dataset.path),
                "results": str(folder),
                "steps": STEPS,
                "layouts": named,
                "backend": "nccl" if ON_GPUS else "gloo",
            }
        )
    )
    run_ranks("tests.training.layout_worker", job, ranks)
    return {name: json.loads((folder / f"{name.replace('/', '-')}.json").read_text()) for name in layouts}


@pytest.fixture(scope="module")
def alone(dataset: DatasetFolder, tmp_path_factory: pytest.TempPathFactory) -> Curves:
    """Each reference on one rank."""
    return train(dataset, tmp_path_factory.mktemp("alone"), REFERENCES, 1)


@pytest.mark.parametrize("ranks", LAYOUTS)
def test_a_layout_learns_what_one_rank_learns(
    dataset: DatasetFolder, tmp_path: Path, alone: Curves, ranks: int
) -> None:
    require_ranks(ranks)
    layouts = {name: {**REFERENCES[name.split("/")[0]], **keys} for name, keys in LAYOUTS[ranks].items()}
    curves = train(dataset, tmp_path, layouts, ranks)
    for name, found in curves.items():
        wanted = alone[name.split("/")[0]]
        apart = max(abs(a - b) for a, b in zip(found["losses"], wanted["losses"], strict=True))
        print(f"{name}: losses within {apart:.1e}, norm of step 1 {found['norms'][0] / wanted['norms'][0] - 1:+.1e}")
    for name, found in curves.items():
        wanted = alone[name.split("/")[0]]
        in_fp8 = name.startswith("fp8")
        assert found["losses"][0] == pytest.approx(wanted["losses"][0], abs=0.02 if in_fp8 else 0.005), name
        assert found["losses"] == pytest.approx(wanted["losses"], abs=0.1 if in_fp8 else 0.03), name
        assert found["norms"][0] == pytest.approx(wanted["norms"][0], rel=0.05 if in_fp8 else 0.01), name
        assert found["losses"][-1] < found["losses"][0] - 0.2, name


@pytest.mark.parametrize("keys", [zero(1), {**zero(1), **EIGHT_BIT}], ids=["adam", "adam8bit"])
def test_a_training_of_two_ranks_goes_on_bit_for_bit(
    dataset: DatasetFolder, tmp_path: Path, keys: dict[str, Any]
) -> None:
    require_ranks(2)
    pytest.importorskip("bitsandbytes", reason="pip install 'neox-train[bnb]'")
    saved = train(dataset, tmp_path, {"unbroken": {**keys, "save_at": SAVED_AT}}, 2)["unbroken"]
    checkpoint = tmp_path / "unbroken" / "checkpoints" / f"step_{SAVED_AT:08}"
    resumed = train(dataset, tmp_path, {"resumed": {**keys, "restore": str(checkpoint)}}, 2)["resumed"]
    assert resumed["losses"] == saved["losses"][SAVED_AT:]
    assert resumed["norms"] == saved["norms"][SAVED_AT:]
