"""The real trainings that the distributed tests look at, each run once a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoint.launch import launch
from tests.checkpoint.variants import EIGHT_BIT, EXACT

Seen = dict[str, list[dict[str, Any]]]
"""What each rank saw, by variant."""


@dataclass(frozen=True)
class Trainings:
    """Two ranks: six steps unbroken; three steps and a save; in new processes, restored and three more."""

    root: Path
    unbroken: Seen
    saved: Seen
    resumed: Seen

    def checkpoint(self, variant: str) -> Path:
        return self.root / variant / "step_00000003"


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    root = tmp_path_factory.mktemp("trainings")
    # Not one after the other by name: ZeRO 3 has to come last of all.
    variants = {**EIGHT_BIT, **EXACT}
    names = sorted(variants, key=lambda name: "zero3" in name)
    first, second = [], []
    for name in names:
        first.append({"overrides": variants[name], "steps": 6})
        first.append({"overrides": variants[name], "steps": 3, "save_at": [3], "root": str(root / name)})
        second.append({"overrides": variants[name], "steps": 3, "restore": str(root / name / "step_00000003")})
    before = launch(root, "before", first, ranks=2)
    after = launch(root, "after", second, ranks=2)
    return Trainings(
        root=root,
        unbroken={name: [rank[2 * index] for rank in before] for index, name in enumerate(names)},
        saved={name: [rank[2 * index + 1] for rank in before] for index, name in enumerate(names)},
        resumed={name: [rank[index] for rank in after] for index, name in enumerate(names)},
    )
