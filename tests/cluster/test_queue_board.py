import json
import multiprocessing
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from neox_train.cluster.queue_board import QueueBoard
from neox_train.cluster.slurm_state import Answer
from tests.cluster.stand_ins import write_command

FOLLOWERS = 12


class Slurm:
    """Answers squeue and counts the questions."""

    def __init__(self, *jobs: str, waiting: Sequence[str] = ()) -> None:
        self.jobs = jobs
        self.waiting = waiting
        self.error = ""
        self.asked: list[str] = []

    def __call__(self, command: Sequence[str]) -> Answer:
        kind = "waiting" if "--sort=-p,i" in command else "jobs"
        self.asked.append(kind)
        if self.error:
            return Answer(1, "", self.error)
        return Answer(0, "\n".join(self.jobs if kind == "jobs" else self.waiting) + "\n", "")


def test_an_answer_is_shared_until_it_is_too_old(tmp_path: Path) -> None:
    slurm = Slurm("7|RUNNING|h100|N/A|node[1-2]|a-1|None")
    first, second = (QueueBoard(tmp_path, run=slurm) for _ in range(2))
    began = time.time()
    look = first.look(newer_than=began)
    assert look.jobs["7"].state == "RUNNING"
    assert look.jobs["7"].nodes == "node[1-2]"
    assert second.look(newer_than=began) == look
    assert slurm.asked == ["jobs"]
    second.look(newer_than=time.time())
    assert slurm.asked == ["jobs", "jobs"]


def test_an_answer_from_the_future_is_asked_again(tmp_path: Path) -> None:
    slurm = Slurm("7|RUNNING|h100|N/A|node[1-2]|a-1|None")
    board = QueueBoard(tmp_path, run=slurm)
    began = time.time()
    board.look(newer_than=began)
    # As a login node wrote it whose clock is ten minutes ahead.
    content = json.loads(board.file.read_text())
    board.file.write_text(json.dumps({**content, "asked": began + 600.0}))
    assert board.look(newer_than=began).asked < began + 600.0
    assert slurm.asked == ["jobs", "jobs"]


def test_twelve_followers_ask_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    body = f"echo asked >> {calls}; sleep 0.5; echo '7|RUNNING|h100|N/A|n1|a|None'"
    write_command(bin_folder, "squeue", body, monkeypatch)
    newer_than = time.time()
    with multiprocessing.get_context("fork").Pool(FOLLOWERS) as pool:
        states = pool.starmap(_look, [(tmp_path / "board", newer_than)] * FOLLOWERS, chunksize=1)
    assert states == ["RUNNING"] * FOLLOWERS
    assert calls.read_text().splitlines() == ["asked"]


def _look(folder: Path, newer_than: float) -> str:
    return QueueBoard(folder).look(newer_than=newer_than).jobs["7"].state


def test_the_whole_queue_is_asked_for_only_while_a_job_waits_and_once_a_minute(tmp_path: Path) -> None:
    slurm = Slurm("7|RUNNING|h100|N/A|n1|a|None", waiting=["3", "8", "9"])
    board = QueueBoard(tmp_path, run=slurm)
    assert board.look(newer_than=time.time()).position("8") is None
    slurm.jobs = ("8|PENDING|h100|N/A||a|(Priority)",)
    assert board.look(newer_than=time.time()).position("8") == (2, 3)
    assert board.look(newer_than=time.time()).position("8") == (2, 3)
    assert slurm.asked == ["jobs", "jobs", "waiting", "jobs"]


def test_silence_is_written_down_for_all_with_the_time_of_the_last_answer(tmp_path: Path) -> None:
    slurm = Slurm("7|RUNNING|h100|N/A|n1|a|None")
    board = QueueBoard(tmp_path, run=slurm)
    answered = board.look(newer_than=time.time()).answered
    slurm.error = "slurm_load_jobs error: Unable to contact slurm controller\nmore"
    look = board.look(newer_than=time.time())
    assert (look.error, look.answered, look.jobs) == (slurm.error.splitlines()[0], answered, {})
    # The others do not ask a silent controller each for itself.
    assert QueueBoard(tmp_path, run=slurm).look(newer_than=look.asked) == look
    assert len(slurm.asked) == 2


def test_a_torn_file_is_asked_anew(tmp_path: Path) -> None:
    slurm = Slurm("7|RUNNING|h100|N/A|n1|a|None")
    board = QueueBoard(tmp_path, run=slurm)
    for text in ("{", json.dumps({"asked": 9e12, "other": 1}), "[]"):
        board.file.write_text(text)
        assert board.look(newer_than=time.time()).jobs["7"].state == "RUNNING"


def test_users_and_clusters_have_their_own(tmp_path: Path) -> None:
    names = {QueueBoard(tmp_path).file.name, QueueBoard(tmp_path, "tern2").file.name}
    assert names == {f"queue-{os.getuid()}.json", f"queue-{os.getuid()}-tern2.json"}
