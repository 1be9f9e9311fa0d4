import os
from pathlib import Path

import pytest

from neox_train.errors import StorageError
from neox_train.files import find_record, make_folder, read_record, write_text
from neox_train.locks import hold_lock


@pytest.mark.parametrize("path", ["/proc/nope/runs", "/proc/self/nope", "/tmp/" + "x" * 300])
def test_a_folder_that_cannot_be_is_one_sentence(path: str) -> None:
    with pytest.raises(StorageError, match="cannot be written") as caught:
        make_folder(Path(path))
    assert "\n" not in str(caught.value)


def test_a_loop_of_links_is_one_sentence(tmp_path: Path) -> None:
    os.symlink(tmp_path / "b", tmp_path / "a")
    os.symlink(tmp_path / "a", tmp_path / "b")
    with pytest.raises(StorageError):
        make_folder(tmp_path / "a" / "runs")


@pytest.mark.parametrize("text", ["", '{"a": ', "[1, 2]"])
def test_a_record_that_is_not_whole_is_named_or_passed_over(tmp_path: Path, text: str) -> None:
    file = tmp_path / "job.json"
    file.write_text(text)
    with pytest.raises(StorageError, match=r"job\.json .*move it away"):
        read_record(file)
    assert find_record(file) is None


def test_a_record_is_read_and_an_absent_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    assert read_record(tmp_path / "a.json") == find_record(tmp_path / "a.json") == {"a": 1}
    assert read_record(tmp_path / "b.json") is find_record(tmp_path / "b.json") is None


def test_a_folder_in_a_file_s_place_is_one_sentence(tmp_path: Path) -> None:
    for name in ("memory.json", "run.lock"):
        (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=r"/memory\.json is a folder, a file is wanted there; move it away"):
        write_text(tmp_path / "memory.json", "{}")
    with pytest.raises(StorageError, match=r"/run\.lock is a folder"), hold_lock(tmp_path / "run.lock"):
        pass
    with pytest.raises(StorageError, match=r"/memory\.json is a folder"):
        read_record(tmp_path / "memory.json")
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
