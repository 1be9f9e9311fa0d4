from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.cluster import ledger as states
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.errors import TrainingError


def attempt(number: int) -> Attempt:
    return Attempt(
        number=number,
        name=f"run-{number}",
        executor="local",
        host="here",
        nodes=1,
        processes=2,
        folder=f"logs/attempt-{number:04}",
        submitted=100.0 + number,
    )


def test_attempts_survive_the_process_that_wrote_them(tmp_path: Path) -> None:
    file = tmp_path / "run" / "job.json"
    ledger = Ledger(file)
    first = ledger.update(ledger.add(attempt(1)), job_id="17", state=states.RUNNING)
    first = ledger.update(first, starts=({"start": 0, "cause": causes.WALL},))
    again = Ledger(file).last
    assert again == first
    assert again is not None
    assert again.is_open
    ledger.close(first, states.LOST, causes.LAUNCHER_ENDED, "its launcher ended", (1, 40))
    ledger.add(attempt(2))
    reread = Ledger(file)
    assert [entry.state for entry in reread] == [states.LOST, states.SUBMITTING]
    assert reread.furthest_step() == 40


def test_an_empty_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "job.json")
    assert ledger.last is None
    assert ledger.furthest_step() == 0
    assert not ledger.file.exists()


@pytest.mark.parametrize("text", ['{"jobs": []}', '{"attempts": [{"number": 1}]}', '{"attempts": [{"unknown": 1}]}'])
def test_another_programs_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.json"
    file.write_text(text)
    with pytest.raises(TrainingError, match=r"job\.json"):
        Ledger(file)
    assert file.read_text() == text
