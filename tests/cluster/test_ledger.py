from pathlib import Path

import pytest

from neox_train.cluster import causes
from neox_train.cluster import ledger as states
from neox_train.cluster.ledger import Attempt, Ledger
from neox_train.cluster.rank_record import read_records, record_file
from neox_train.errors import TrainingError, UserError


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


def test_a_lost_ledger_is_told_by_the_log_folders(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "job.json")
    for number in range(1, 12):
        ledger.update(ledger.add(attempt(number)), job_id=str(number), state=states.RUNNING)
    ledger.file.unlink()
    again = Ledger(ledger.file)
    assert [entry.number for entry in again] == list(range(1, 12))
    # Whatever became of the newest, its job may live: it is looked for before another is submitted.
    assert [entry.is_open for entry in again] == [False] * 10 + [True]
    assert (again.attempts[-1].name, again.attempts[-1].job_id) == ("run-11", None)
    assert {entry.cause for entry in again.attempts[:-1]} == {causes.LOST}


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


@pytest.mark.parametrize("text", ["", '{"attempts": [', '["attempts"]', '{"attempts": [{"number": 1}]}'])
def test_a_torn_ledger_is_one_sentence_with_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(UserError, match=r"job\.json") as caught:
        Ledger(tmp_path / "job.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ['{"rank": 0', '{"rank": 0, "colour": "red"}'])
def test_a_torn_rank_record_is_one_sentence_with_the_file(tmp_path: Path, text: str) -> None:
    record_file(tmp_path, "17", 0).write_text(text)
    with pytest.raises(UserError, match=r"17_0_start0_rank\.json") as caught:
        read_records(tmp_path, "17", 1)
    assert "\n" not in str(caught.value)
