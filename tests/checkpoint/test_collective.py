from __future__ import annotations

import errno

import pytest

from neox_train.checkpoint.collective import Failure, RanksFailedError, run_on_first, run_together
from neox_train.errors import CheckpointError, StorageError
from neox_train.files import storage_errors


def fail_full(path: object) -> None:
    with storage_errors(path):  # type: ignore[arg-type]
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_result_comes_back() -> None:
    assert run_together(lambda: 5) == 5
    assert run_on_first(lambda: "first") == "first"


def test_a_failure_keeps_the_number_of_the_system_error_under_it(tmp_path: object) -> None:
    with pytest.raises(RanksFailedError) as failed:
        run_together(lambda: fail_full(tmp_path))
    (failure,) = failed.value.failures
    assert failure.errno == errno.ENOSPC
    assert isinstance(failure.to_error(), StorageError)


def test_a_users_error_stays_itself_and_another_names_the_rank() -> None:
    refused = Failure.of(CheckpointError("one sentence")).to_error()
    assert isinstance(refused, CheckpointError)
    assert str(refused) == "one sentence"
    assert str(Failure.of(KeyError("x")).to_error()) == "rank 0 failed with KeyError: 'x'"
