import os
import socket
import time
from dataclasses import replace

from neox_train.cluster.local_job import find_process
from neox_train.cluster.rank_record import RankRecord


def own_record() -> RankRecord:
    return RankRecord(rank=0, host=socket.gethostname(), pid=os.getpid(), start=0, started=time.time())


def test_the_process_of_a_record_is_found() -> None:
    process = find_process(own_record())
    assert process is not None and process.pid == os.getpid()


def test_a_number_that_another_process_has_by_now_is_nobody() -> None:
    assert find_process(replace(own_record(), started=time.time() - 10 * 86400)) is None


def test_a_process_of_another_host_is_nobody_here() -> None:
    assert find_process(replace(own_record(), host="elsewhere")) is None
