"""Dumps of the flight recorder: read without running anything, told in sentences."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from neox_train.errors import UserError
from neox_train.monitoring.flight_recorder import Dump, read_dumps, recorder_variables
from neox_train.monitoring.flight_summary import summarise


def record(
    number: int, kind: str = "all_reduce", *, done: bool = False, size: int = 4, **changes: Any
) -> dict[str, Any]:
    """An entry as torch 2.13 writes it."""
    return {
        "process_group": ("1", "dp"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{kind}",
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "state": "completed" if done else "started",
        "retired": done,
        "is_p2p": False,
        "frames": [
            {"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 1},
            {"name": "run_step", "filename": "/x/neox_train/training/step.py", "line": 88},
        ],
        **changes,
    }


def dump(rank: int, *entries: dict[str, Any], step: int | None = None, ranks: int = 2) -> Dump:
    return Dump(rank, list(entries), {"1": {"ranks": str(list(range(ranks)))}}, step)


def test_the_rank_that_is_behind_is_named() -> None:
    told = summarise([dump(0, record(7), step=40), dump(1, record(6, done=True), step=39)])
    assert told == [
        "the ranks stopped in step 41, rank 1 after 39",
        "rank 1 did not enter all_reduce number 7 of group dp ([4] Float), called at step.py:88 run_step, "
        "in which rank 0 waited",
    ]


def test_ranks_that_disagree_are_told_apart() -> None:
    (told,) = summarise([dump(0, record(7)), dump(1, record(7, "all_gather", size=9))])
    assert told.startswith("the ranks disagree on collective number 7: rank 0 all_reduce")
    assert "rank 1 all_gather number 7 of group dp ([9] Float)" in told


def test_all_in_the_same_collective_points_to_the_link() -> None:
    (told,) = summarise([dump(0, record(7)), dump(1, record(7))])
    assert told.startswith("ranks 0, 1 waited in all_reduce number 7")
    assert told.endswith(": a link or a GPU did not carry it through")


def test_a_rank_without_a_dump_is_named() -> None:
    told = summarise([dump(0, record(7), ranks=3), dump(2, record(7), ranks=3)])
    assert told[0] == "rank 1 left no dump: it ended before the others gave up, or its node is gone"
    assert told[1].endswith("; rank 1 left no dump")


def test_a_message_that_does_not_come_is_told() -> None:
    waits = record(0, "recv 1<-0", is_p2p=True, p2p_seq_id=5)
    assert summarise([dump(0, record(6, done=True)), dump(1, record(6, done=True), waits)])[0].startswith(
        "rank 1 waited in recv 1<-0 number 5"
    )


def test_nothing_under_way_is_said() -> None:
    (told,) = summarise([dump(0, record(7, done=True)), dump(1, record(7, done=True))])
    assert "outside of communication" in told


def test_a_file_is_read_back_with_its_step(tmp_path: Path) -> None:
    (tmp_path / "rank_3").write_bytes(pickle.dumps({"entries": [record(1)], "pg_config": {}, "version": "2.10"}))
    (tmp_path / "step-3.txt").write_text("12\n")
    (read,) = read_dumps(tmp_path)
    assert (read.rank, read.step, len(read.entries)) == (3, 12, 1)


class Hostile:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_nothing_in_a_dump_is_run(tmp_path: Path) -> None:
    (tmp_path / "rank_0").write_bytes(pickle.dumps({"entries": [Hostile(tmp_path / "made")]}))
    with pytest.raises(UserError, match=r"rank_0 is no dump .*posix.mkdir, and plain values only"):
        read_dumps(tmp_path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"words", pickle.dumps([1]), pickle.dumps({"entries": [1]})[:-4]])
def test_a_torn_dump_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rank_0").write_bytes(content)
    with pytest.raises(UserError, match="rank_0 is no dump"):
        read_dumps(tmp_path)


def test_a_folder_without_dumps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no dump"):
        read_dumps(tmp_path)


def test_both_names_of_torch_point_to_the_same_files(tmp_path: Path) -> None:
    variables = recorder_variables(tmp_path / "flight")
    assert variables["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == variables["TORCH_FR_DUMP_TEMP_FILE"]
    assert int(variables["TORCH_FR_BUFFER_SIZE"]) > 0
    assert variables["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"


@pytest.mark.parametrize(("release", "old"), [("2.6.0", True), ("2.8.1+cu128", True), ("2.9.0", False), ("3.0", False)])
def test_a_name_that_torch_warns_of_goes_to_releases_that_read_it(tmp_path: Path, release: str, old: bool) -> None:
    variables = recorder_variables(tmp_path, release)
    assert ("TORCH_NCCL_TRACE_BUFFER_SIZE" in variables) is old and "TORCH_FR_BUFFER_SIZE" in variables


def test_the_installed_torch_has_nothing_to_warn_of(tmp_path: Path) -> None:
    code = (
        "import torch, torch.distributed as distributed;"
        f"distributed.init_process_group('gloo', init_method='file://{tmp_path}/meeting', rank=0, world_size=1);"
        "distributed.all_reduce(torch.ones(1)); distributed.destroy_process_group()"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TORCH_NCCL", "TORCH_FR"))}
    environment = {**clean, **recorder_variables(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and "deprecated" not in ended.stderr, ended.stderr
