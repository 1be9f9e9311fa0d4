"""Runs tasks on ranks of ``rank_worker`` and collects what each of them saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.gloo import run_ranks


def launch(folder: Path, name: str, tasks: list[dict[str, Any]], *, ranks: int) -> list[list[dict[str, Any]]]:
    """Run the tasks in order on every rank; result[rank][task]. Fails with the log of a rank that failed."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(tasks))
    run_ranks("tests.checkpoint.rank_worker", path, ranks)
    return [json.loads(path.with_name(f"{path.stem}-rank{rank}.json").read_text()) for rank in range(ranks)]
