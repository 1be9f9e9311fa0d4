import shutil
from pathlib import Path

import pytest

from neox_train.commands.stage import stage
from neox_train.errors import DataError, StoppedError
from neox_train.files import read_json


def test_a_failure_is_left_for_the_workflow_and_success_takes_it_away(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "serial"
    with pytest.raises(DataError), stage("train", folder, subject="run serial", command="neox-train submit serial"):
        raise DataError("corpus.txt is empty; add text")
    first = read_json(folder / "failure.json")
    assert first.pop("id")
    assert first == {
        "stage": "train",
        "subject": "run serial",
        "sentence": "corpus.txt is empty; add text",
        "command": "neox-train submit serial",
    }
    with stage("train", folder, subject="run serial", command="neox-train submit serial"):
        assert read_json(folder / "stage.json")["stage"] == "train"
    assert list(folder.iterdir()) == []


def test_a_stage_leaves_the_record_of_one_that_began_after_it(tmp_path: Path) -> None:
    with stage("train", tmp_path, subject="run a", command="first"):
        second = stage("train", tmp_path, subject="run a", command="second")
        second.__enter__()
    assert read_json(tmp_path / "stage.json")["command"] == "second"
    second.__exit__(None, None, None)
    assert not (tmp_path / "stage.json").exists()


def test_a_fault_of_the_program_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), stage("report", tmp_path, subject="report", command="neox-train report"):
        raise ZeroDivisionError("division by zero")
    assert read_json(tmp_path / "failure.json")["sentence"] == "unexpected ZeroDivisionError: division by zero"


def test_a_folder_that_takes_no_file_does_not_hide_the_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DataError), stage("tokenize", blocked, subject="dataset a", command="x"):
        raise DataError("the real reason")


def test_a_stop_is_told_from_a_failure(tmp_path: Path) -> None:
    with pytest.raises(StoppedError), stage("train", tmp_path, subject="run a", command="again"):
        raise StoppedError("run a after step 5 of 20: saved and stopped by SIGTERM", 15)
    assert read_json(tmp_path / "failure.json")["outcome"] == "stopped"
    assert StoppedError("", 2).exit_code == 130


def test_a_folder_removed_during_the_work_does_not_come_back_with_its_failure_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(DataError), stage("train", folder, subject="run a", command="again"):
        shutil.rmtree(folder)
        raise DataError("the folder is gone")
    assert not folder.exists()
