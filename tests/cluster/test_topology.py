"""Nodes and switches in Slurm's words."""

from neox_train.cluster.slurm_state import Answer
from neox_train.cluster.topology import describe_topology, find_switches, parse_switches
from neox_train.config.grid import GridShape

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[07-08]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu[09-10],login
SwitchName=spine Level=1 LinkSpeed=1 Nodes=gpu[07-10],login Switches=leaf[1-2]
"""


def test_each_node_has_its_leaf() -> None:
    assert parse_switches(TREE, ["gpu08", "gpu09", "cpu1"]) == {"gpu08": "leaf1", "gpu09": "leaf2"}


def test_a_site_without_topology_has_none() -> None:
    assert parse_switches("", ["gpu08"]) == {}
    assert find_switches(["gpu08"], lambda command: Answer(1, "", "no topology")) == {}
    assert find_switches(["gpu08"], lambda command: Answer(0, TREE, "")) == {"gpu08": "leaf1"}


def test_what_is_told() -> None:
    topology = describe_topology(["gpu08", "gpu09"], parse_switches(TREE, ["gpu08", "gpu09"]), GridShape(dp=4, tp=2))
    assert topology["ranks_per_node"] == 4
    assert topology["told"] == [
        "nodes: gpu08 (leaf1), gpu09 (leaf2); 2 leaf switches",
        "2 nodes; of 4 tensor-parallel groups 0, 2 groups of replicas 2 cross nodes",
    ]
    assert describe_topology(["gpu08"], {}, GridShape(dp=2))["told"] == ["nodes: gpu08"]
    assert describe_topology(["a", "b"], {}, GridShape(tp=4))["told"][-1].startswith("warning: 1 of 1 tensor-parallel")
