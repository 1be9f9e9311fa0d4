"""The loss of logits cut over two real processes against the loss of the whole logits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gloo import run_ranks

pytestmark = pytest.mark.distributed

CASES: dict[str, dict[str, Any]] = {
    "without padding": {"vocab_size": 1024, "padded": 1024, "dtype": "float32"},
    "padding at the end": {"vocab_size": 1000, "padded": 1024, "dtype": "float32"},
    "one rank of padding alone": {"vocab_size": 300, "padded": 1024, "dtype": "float32"},
    "targets that do not count": {"vocab_size": 1000, "padded": 1024, "dtype": "float32", "ignored": 3},
    "16 bits": {"vocab_size": 1000, "padded": 1024, "dtype": "bfloat16"},
}
TOKENS = 128
Seen = dict[str, list[dict[str, float]]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What both ranks saw, by case."""
    job = tmp_path_factory.mktemp("loss") / "job.json"
    job.write_text(json.dumps(list(CASES.values())))
    run_ranks("tests.model.parallel.loss_worker", job, 2)
    ranks = [json.loads(job.with_name(f"seen-{rank}.json").read_text()) for rank in (0, 1)]
    return {name: [rank[index] for rank in ranks] for index, name in enumerate(CASES)}


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_are_those_of_the_whole(seen: Seen, case: str) -> None:
    for rank in seen[case]:
        assert rank["loss"] < 1e-6
        # Rounded once to 16 bits, either way.
        assert rank["gradient"] < (1e-5 if CASES[case]["dtype"] == "float32" else 2**-7)
        assert rank["padding"] == 0.0


@pytest.mark.parametrize("case", CASES)
def test_one_fp32_copy_and_the_gradient_are_all_that_is_held(seen: Seen, case: str) -> None:
    width, is_wide = CASES[case]["padded"] // 2, CASES[case]["dtype"] == "float32"
    # A CPU computes the gradient in fp32 before it rounds it.
    allowed = 4 + (4 if is_wide else 2 + 4)
    for rank in seen[case]:
        assert rank["peak"] <= TOKENS * (allowed * width + 64)
