import pytest

from neox_train.cluster.gres import NodeGpus
from neox_train.cluster.slurm_facts import (
    Association,
    NodeGroup,
    ask_associations,
    ask_configuration,
    ask_node_groups,
    ask_nodes,
    ask_partitions,
    parse_minutes,
)
from neox_train.cluster.slurm_state import Answer
from neox_train.errors import ConfigError
from tests.cluster.slurm_answers import FakeSlurm, partition_line


def test_partitions_and_their_limits() -> None:
    lines = [
        partition_line("gpu", accounts="physics,chem", max_nodes="8"),
        partition_line("debug", default="NO", max_time="UNLIMITED", state="DOWN"),
    ]
    found = ask_partitions(FakeSlurm(partitions=lines))
    gpu, debug = found["gpu"], found["debug"]
    assert (gpu.is_default, gpu.max_minutes, gpu.max_nodes, gpu.node_count) == (True, 2880, 8, 4)
    assert (gpu.allow_accounts, gpu.preempt_mode, gpu.nodes) == (("physics", "chem"), "requeue", "node[1-4]")
    assert (debug.is_default, debug.max_minutes, debug.max_nodes, debug.state) == (False, None, None, "DOWN")
    assert debug.allow_accounts is None


def test_kinds_of_nodes_by_partition() -> None:
    groups = ask_node_groups(FakeSlurm(gres=["gpu:a100:4(S:0,2),nvme:1"], features=["milan,gpu80"]))
    assert groups == {"gpu": [NodeGroup(2, 64, 512000, ("milan", "gpu80"), NodeGpus({"a100": 4}))]}


def test_values_of_a_node_may_hold_blanks_and_equal_signs() -> None:
    (node,) = ask_nodes("node0", FakeSlurm())
    assert node["OS"] == "Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian 6.1"
    assert node["CfgTRES"] == "cpu=64,mem=500G"
    assert node["Gres"] == "gpu:h100:4"


def test_configuration_and_accounts() -> None:
    slurm = FakeSlurm(accounts=["physics||normal,long", "chem|gpu|"])
    assert ask_configuration(slurm)["MinJobAge"] == "300 sec"
    assert ask_associations(slurm) == [
        Association("physics", "", ("normal", "long")),
        Association("chem", "gpu", ()),
    ]
    assert ask_associations(FakeSlurm(accounts=None)) is None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("2-00:00:00", 2880),
        ("1-12", 2160),
        ("02:30:00", 150),
        ("30:00", 30),
        ("90", 90),
        ("UNLIMITED", None),
        ("NONE", None),
    ],
)
def test_times(text: str, minutes: int | None) -> None:
    assert parse_minutes(text) == minutes


def test_a_time_that_cannot_be_read_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="Slurm's time `soon` cannot be read"):
        parse_minutes("soon")


def test_silence_is_a_sentence() -> None:
    def refuse(command: object) -> Answer:
        return Answer(1, "", "scontrol: error: Unable to contact slurm controller\n")

    with pytest.raises(ConfigError, match=r"`scontrol show config` failed \(scontrol: error: Unable to contact"):
        ask_configuration(refuse)
    with pytest.raises(ConfigError, match="`scontrol` is not found; run this on a login node"):
        ask_configuration(lambda command: Answer(127, "", "No such file"))
