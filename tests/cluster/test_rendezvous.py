import socket
import threading
from pathlib import Path

import pytest

from neox_train.cluster import rendezvous
from neox_train.cluster.rendezvous import (
    agree_on_address,
    candidate_ports,
    choose_port,
    find_address,
    is_free,
    port_of_job,
    resolve_ipv4,
)
from neox_train.errors import TrainingError
from tests.cluster.stand_ins import write_command

JOB_IDS = (Path(__file__).parent.parent / "cases" / "16-job-ids.txt").read_text().split()


@pytest.mark.parametrize("job_id", JOB_IDS)
def test_port_is_below_the_ephemeral_range_and_differs_from_the_neighbours(job_id: str) -> None:
    port = port_of_job(job_id)
    assert 10000 <= port <= 32767
    assert port == port_of_job(job_id)
    assert port != port_of_job(str(int(job_id) + 1))


def test_candidates_stay_in_range_and_do_not_repeat() -> None:
    ports = list(candidate_ports("65535"))
    assert len(set(ports)) == len(ports)
    assert all(10000 <= port <= 32767 for port in ports)


@pytest.fixture
def taken() -> socket.socket:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port_of_job("4242")))
        listener.listen()
        yield listener


def test_all_ranks_agree_on_another_port_when_the_first_is_taken(tmp_path: Path, taken: socket.socket) -> None:
    found: dict[int, tuple[str, int]] = {}

    def meet(rank: int) -> None:
        found[rank] = agree_on_address(
            tmp_path, job_id="4242", start=0, rank=rank, address="127.0.0.1", wait_seconds=20
        )

    ranks = [threading.Thread(target=meet, args=(rank,)) for rank in (3, 2, 1, 0)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert len(set(found.values())) == 1
    address, port = found[0]
    assert address == "127.0.0.1"
    assert port != port_of_job("4242")
    assert is_free(port)


def test_port_and_holder_are_named_when_nothing_is_free(monkeypatch: pytest.MonkeyPatch, taken: socket.socket) -> None:
    monkeypatch.setattr(rendezvous, "_TRIES", 1)
    with pytest.raises(TrainingError, match=rf"port {port_of_job('4242')} .*process \d+"):
        choose_port("4242")


def test_a_rank_whose_rank_0_never_comes_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="rank 1 waited"):
        agree_on_address(tmp_path, job_id="7", start=0, rank=1, address="", wait_seconds=0)


def test_an_earlier_start_of_the_job_is_not_mistaken_for_this_one(tmp_path: Path) -> None:
    agree_on_address(tmp_path, job_id="7", start=0, rank=0, address="10.0.0.1", wait_seconds=0)
    with pytest.raises(TrainingError):
        agree_on_address(tmp_path, job_id="7", start=1, rank=1, address="", wait_seconds=0)


def test_a_name_that_does_not_resolve_is_a_sentence() -> None:
    assert resolve_ipv4("localhost") == "127.0.0.1"
    with pytest.raises(TrainingError, match=r"no-such-node\.invalid"):
        resolve_ipv4("no-such-node.invalid")


def test_where_the_name_fails_slurms_address_of_the_node_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_command(tmp_path, "scontrol", "echo NodeName=n1 NodeAddr=10.7.0.3 NodeHostName=n1 Port=0", monkeypatch)
    monkeypatch.setenv("SLURM_LAUNCH_NODE_IPADDR", "10.9.9.9")
    assert find_address("no-such-node.invalid", several_nodes=True) == "10.7.0.3"
    # A node that resolves its own name to itself is not reached by the others under that address.
    assert find_address("localhost", several_nodes=True) == "10.7.0.3"
    assert find_address("localhost", several_nodes=False) == "127.0.0.1"
    write_command(tmp_path, "scontrol", "exit 1", monkeypatch)
    assert find_address("no-such-node.invalid", several_nodes=True) == "10.9.9.9"
    assert find_address("localhost", several_nodes=True) == "10.9.9.9"
    monkeypatch.delenv("SLURM_LAUNCH_NODE_IPADDR")
    assert find_address("localhost", several_nodes=True) == "127.0.0.1"
    with pytest.raises(TrainingError, match="cannot meet"):
        find_address("no-such-node.invalid", several_nodes=True)
