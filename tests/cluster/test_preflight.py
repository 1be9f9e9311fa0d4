"""The start of a training on this very machine: real facts, real folders, a real all-reduce."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neox_train.cluster.node_facts import collect_facts, digest_code, expand_in_shell
from neox_train.cluster.preflight import require_healthy_node
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Preflight
from neox_train.errors import TrainingError

RANK = """
import sys, torch.distributed as dist
from neox_train.cluster.preflight import require_bandwidth
from neox_train.config.cluster import Cluster
from neox_train.config.cluster_records import Preflight
from neox_train.errors import TrainingError
from neox_train.training.distributed import leave_at_exit
rank, store, floor = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
leave_at_exit()
try:
    print(require_bandwidth(Cluster(preflight=Preflight(all_reduce_gb_per_second=floor))))
except TrainingError as error:
    sys.exit(f"{error}")
"""


def test_this_machine_is_fit_for_a_cpu_training(tmp_path: Path) -> None:
    warnings = require_healthy_node(Cluster(), tmp_path / "results", local_rank=0)
    assert all("preflight on" in warning for warning in warnings)
    assert list((tmp_path / "results").iterdir()) == []


def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"preflight on .*results on the node: .*Not a directory; set results:"):
        require_healthy_node(Cluster(), tmp_path / "file" / "results", local_rank=0)


def test_more_cores_than_there_are_stop_the_start(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"local rank 1: cores of a process: \d+, wanted 4096"):
        require_healthy_node(Cluster(cpus_per_process=4096), tmp_path, local_rank=1)


def test_a_full_scratch_disk_stops_the_start(tmp_path: Path) -> None:
    cluster = Cluster(node_local_scratch=str(tmp_path), preflight=Preflight(free_scratch_gib=1e9))
    with pytest.raises(TrainingError, match=r"node-local scratch: .* GiB free, floor 1e\+09"):
        require_healthy_node(cluster, tmp_path, local_rank=0)


def test_facts_are_of_this_process(tmp_path: Path) -> None:
    facts = collect_facts(Cluster(), tmp_path)
    assert facts["executable"] == sys.executable
    assert facts["code"] == digest_code()
    assert facts["torch"]["version"]
    assert facts["results"]["free_bytes"] > 0


def test_variables_are_expanded_as_a_batch_script_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_SCRATCH", raising=False)
    assert expand_in_shell('${NODE_SCRATCH:-/tmp}/a "b" `c`') == '/tmp/a "b" `c`'
    monkeypatch.setenv("NODE_SCRATCH", "/local")
    assert expand_in_shell("${NODE_SCRATCH:-/tmp}/a") == "/local/a"


@pytest.mark.distributed
@pytest.mark.parametrize(("floor", "code"), [(1e-6, 0), (1e6, 1)])
def test_every_rank_judges_the_network_alike(tmp_path: Path, floor: float, code: int) -> None:
    command = [sys.executable, "-c", RANK]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store"), str(floor)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [code, code], outputs
    said = [out if code == 0 else err for out, err in outputs]
    assert all("bus bandwidth, gloo, 2 ranks, floor" in text for text in said)
    figures = {text.split(" GB/s")[0].split()[-1] for text in said}
    assert len(figures) == 1
