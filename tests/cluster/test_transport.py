"""NCCL's own words for the network it took, against what the profile promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neox_train.cluster.check import FAILED, PASSED, SKIPPED, WARNING
from neox_train.cluster.transport import (
    check_transport,
    parse_transport,
    promises_fast_network,
    read_own_log,
    transport_variables,
    watches_transport,
)
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Network

HEAD = "gpu07:4242:4300 [0] NCCL INFO "
SOCKETS = [
    HEAD + "NET/IB : No device found.",
    HEAD + "NET/Socket : Using [0]eth0:10.1.0.7<0>",
    HEAD + "Using network Socket",
    HEAD + "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Socket/0",
    HEAD + "Channel 01/0 : 3[3] -> 4[0] [send] via NET/Socket/0",
    HEAD + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
]
INFINIBAND = [
    HEAD + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.2.0.7<0>",
    HEAD + "Using network IB",
    HEAD + "Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/0/GDRDMA",
]
PROMISED = Cluster(name="h100", network=Network(kind="InfiniBand NDR", adapters="mlx5_0,mlx5_1"))


def test_a_fall_back_to_tcp_fails_with_reason_and_remedy() -> None:
    check = check_transport(parse_transport(SOCKETS), PROMISED, nodes=2)
    assert check.status == FAILED
    assert check.sentence() == (
        "network of NCCL: TCP sockets over eth0:10.1.0.7<0> where the profile promises InfiniBand NDR: NCCL found no "
        "InfiniBand adapter; network.adapters is mlx5_0,mlx5_1: compare network.adapters with `ibstat -l` on the node; "
        "in a container bind /dev/infiniband"
    )


def test_infiniband_passes() -> None:
    transport = parse_transport(INFINIBAND)
    assert (transport.name, transport.connections) == ("IB", {"IB": 1})
    assert check_transport(transport, PROMISED, nodes=2).status == PASSED


def test_one_connection_by_tcp_among_others_is_a_fall_back() -> None:
    assert parse_transport([*INFINIBAND, SOCKETS[3]]).name == "Socket"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("NCCL_IB_DISABLE set by environment to 1.", "remove NCCL_IB_DISABLE"),
        ("NCCL_NET set by environment to Socket", "remove NCCL_NET"),
        ("Failed to open libibverbs.so[.1]", "rdma-core"),
    ],
)
def test_what_caused_it_decides_the_remedy(line: str, remedy: str) -> None:
    check = check_transport(parse_transport([HEAD + line, *SOCKETS[1:]]), PROMISED, nodes=2)
    assert check.status == FAILED
    assert remedy in check.remedy


def test_without_a_promise_one_node_or_words_nothing_fails() -> None:
    ethernet = Cluster(network=Network(kind="25 GbE"))
    assert check_transport(parse_transport(SOCKETS), ethernet, nodes=2).status == PASSED
    assert check_transport(parse_transport(SOCKETS), PROMISED, nodes=1).status == SKIPPED
    assert check_transport(parse_transport([]), PROMISED, nodes=2).status == WARNING


@pytest.mark.parametrize(
    ("network", "promised"),
    [
        (Network(kind="InfiniBand NDR or HDR"), True),
        (Network(kind="Slingshot 11"), True),
        (Network(kind="RoCE"), True),
        (Network(adapters="mlx5_0"), True),
        (Network(kind="Ethernet, 100 Gbit/s"), False),
        (Network(), False),
    ],
)
def test_what_a_profile_promises(network: Network, promised: bool) -> None:
    assert promises_fast_network(network) is promised


def test_only_jobs_of_several_gpu_nodes_are_watched() -> None:
    gpu = PROMISED.model_copy(update={"device": "cuda"})
    assert watches_transport(gpu, 2)
    assert not watches_transport(gpu, 1)
    assert not watches_transport(PROMISED, 2)


def test_a_rank_reads_its_own_log_only(tmp_path: Path) -> None:
    variables = transport_variables(tmp_path, 1)
    pattern = variables["NCCL_DEBUG_FILE"]
    assert variables["NCCL_DEBUG"] == "INFO"
    (tmp_path / f"nccl-1-gpu07-{os.getpid()}.log").write_text("mine\n")
    (tmp_path / f"nccl-1-gpu07-{os.getpid()}9.log").write_text("another's\n")
    (tmp_path / f"nccl-0-gpu07-{os.getpid()}.log").write_text("the start before\n")
    assert read_own_log(pattern) == ["mine"]


def test_a_file_that_the_site_chose_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG_FILE", "/tmp/site.log")
    assert transport_variables(tmp_path, 1) == {}
