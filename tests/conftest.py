"""What every test shares: a CPU environment without surprises, and the folder of case inputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def cases(repository: Path) -> Path:
    """Inputs of the cases taken from public reports."""
    return repository / "tests" / "cases"


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked gpu run where there is one, with DS_ACCELERATOR=cuda in the environment."""
    if item.get_closest_marker("gpu") and os.environ["DS_ACCELERATOR"] == "cpu":
        pytest.skip("needs a GPU and DS_ACCELERATOR=cuda")


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """In CI a Slurm or multi-process test that skips is a hole in the proof: make it fail."""
    if os.environ.get("CI") != "true" or call.excinfo is None or not call.excinfo.errisinstance(pytest.skip.Exception):
        return
    if any(item.get_closest_marker(name) for name in ("slurm", "distributed", "workflow")):
        message = f"skipped in CI: {call.excinfo.value}"
        call.excinfo = pytest.ExceptionInfo.from_exception(AssertionError(message))
