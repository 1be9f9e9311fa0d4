"""Two ranks choose together: the same answer and the same reasons, whichever of them read the damaged file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from neox_train.checkpoint.choice import choose_checkpoint
from tests.checkpoint.launch import launch
from tests.checkpoint.small_checkpoint import write_checkpoint

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[dict[str, Any]]]]:
    place = tmp_path_factory.mktemp("agreement")
    roots = [place / name for name in ("whole", "damaged", "none")]
    for root in roots[:2]:
        for step in (10, 20, 30):
            write_checkpoint(root, step)
    for name in ("rank_00000.safetensors", "rank_00001.safetensors", "state.json"):
        path = roots[1] / "step_00000030" / name
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    (roots[1] / "step_00000020" / "fragments.json").unlink()
    (roots[1] / ".tmp-step_00000040").mkdir()
    return place, launch(place, "choose", [{"choose": str(root)} for root in roots], ranks=2)


def test_the_newest_complete_one_is_chosen(answers: tuple[Path, list[list[dict[str, Any]]]]) -> None:
    assert [rank[0]["chosen"] for rank in answers[1]] == ["step_00000030"] * 2


def test_damage_is_named_alike_on_every_rank_and_as_one_process_names_it(
    answers: tuple[Path, list[list[dict[str, Any]]]],
) -> None:
    place, ranks = answers
    folder, skipped = choose_checkpoint(place / "damaged")
    assert folder is not None
    for rank in ranks:
        assert rank[1]["chosen"] == folder.name == "step_00000010"
        assert {name: set(reason.split("; ")) for name, reason in rank[1]["skipped"].items()} == {
            path.name: set(reason.split("; ")) for path, reason in skipped
        }


def test_what_a_dead_save_left_is_cleared_first(answers: tuple[Path, list[list[dict[str, Any]]]]) -> None:
    assert not (answers[0] / "damaged" / ".tmp-step_00000040").exists()


def test_nothing_to_choose_is_no_error(answers: tuple[Path, list[list[dict[str, Any]]]]) -> None:
    assert [rank[2] for rank in answers[1]] == [{"chosen": None, "skipped": {}}] * 2
