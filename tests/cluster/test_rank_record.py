import threading
from pathlib import Path

from neox_train.cluster.rank_record import FAILED, FINISHED, RankRecord, list_starts, read_records, read_start


def test_each_start_has_its_own_records_and_the_newest_counts(tmp_path: Path) -> None:
    for start in (0, 2, 10):
        for rank in range(2):
            RankRecord.begin(tmp_path, "7", rank, start, step=start)
    RankRecord.begin(tmp_path, "71", 0, 99)
    assert list_starts(tmp_path, "7") == [0, 2, 10]
    assert {record.start for record in read_records(tmp_path, "7", 2).values()} == {10}
    assert read_start(tmp_path, "7", 2, 2)[1].step == 2
    assert read_records(tmp_path / "nowhere", "7", 2) == {}


def test_a_failure_after_a_failure_is_its_consequence(tmp_path: Path) -> None:
    record = RankRecord.begin(tmp_path, "7", 0, 0)
    record.end(tmp_path, "7", FAILED, "it hangs", cause="hang")
    record.end(tmp_path, "7", FAILED, "a peer is gone", cause="rank lost")
    assert read_records(tmp_path, "7", 1)[0].sentence == "it hangs"
    # It recovered after all.
    record.end(tmp_path, "7", FINISHED)
    assert read_records(tmp_path, "7", 1)[0].outcome == FINISHED


def test_threads_that_end_a_rank_at_once_leave_a_whole_record(tmp_path: Path) -> None:
    record = RankRecord.begin(tmp_path, "7", 0, 0)
    sentences = ["one " * 5000, "two"]
    threads = [
        threading.Thread(target=record.end, args=(tmp_path, "7", FAILED, sentence)) for sentence in sentences * 10
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_records(tmp_path, "7", 1)[0].sentence in sentences
    assert [file.name for file in tmp_path.iterdir()] == ["7_0_start0_rank.json"]
