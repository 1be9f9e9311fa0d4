from __future__ import annotations

import pytest

from tests.workflow.working_copy import WorkingCopy


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> WorkingCopy:
    """A working copy in which train_all has run to its end, undisturbed."""
    copy = WorkingCopy.make(tmp_path_factory.mktemp("workflow") / "copy")
    code, text = copy.snakemake()
    assert code == 0, text
    assert "the report is results/report/index.html" in text
    return copy
