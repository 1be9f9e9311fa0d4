from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neox_train.cluster.profile_answers import Answers
from neox_train.cluster.profile_create import ProfileFacts, gather_profile
from neox_train.cluster.profile_text import write_profile
from neox_train.config.cluster import load_cluster
from neox_train.errors import ConfigError
from tests.cluster.slurm_answers import FakeSlurm, partition_line

CASES = Path(__file__).parent.parent / "cases" / "13-gres.tsv"


def gather(slurm: FakeSlurm, **given: str | int) -> ProfileFacts:
    return gather_profile("new", Answers(given), run=slurm)


def refuse(slurm: FakeSlurm, **given: str | int) -> str:
    with pytest.raises(ConfigError) as caught:
        gather(slurm, **given)
    return str(caught.value)


def test_a_partition_as_slurm_tells_it() -> None:
    facts = gather(FakeSlurm(gres=["gpu:h100:4(S:0,2),nvme:1"] * 2))
    assert (facts.partition, facts.gpu.type, facts.gpu.memory_gib) == ("gpu", "h100", 79.1)
    assert (facts.processes_per_node, facts.cpus_per_process, facts.memory_per_node) == (4, 16, "0")
    assert (facts.gres_style, facts.gres_type, facts.constraint) == ("gpus-per-node", "", "")
    assert (facts.time_limit_minutes, facts.preempt_mode) == (1440, "off")
    assert (facts.accounting, facts.accounts, facts.status_command) == (True, ("physics",), "squeue")


def test_a_written_profile_loads_and_says_the_same(tmp_path: Path) -> None:
    lines = [partition_line(), partition_line("cpu", default="NO", max_time="01:40:00")]
    slurm = FakeSlurm(partitions=lines)
    facts = gather(slurm, partition="gpu", interface="ib0", cpu_partition="cpu", results="$SCRATCH/runs")
    cluster_file, options_file = write_profile(facts, tmp_path)
    cluster = load_cluster(cluster_file)
    assert (cluster.partition, cluster.processes_per_node, cluster.gpu) == ("gpu", 4, facts.gpu)
    assert (cluster.network.interface, cluster.cpu_stages.partition) == ("ib0", "cpu")
    assert (cluster.account, cluster.memory_per_node, cluster.results) == (None, "0", "$SCRATCH/runs")
    options = yaml.safe_load(options_file.read_text())
    assert (options["executor"], options["configfile"]) == ("slurm", "cluster.yaml")
    assert {entry["runtime"] for entry in options["set-resources"].values()} == {100}
    assert options["set-threads"] == {"tokenize": 8, "convert": 4, "evaluate": 8}
    assert "the partitions are gpu, cpu" in refuse(slurm, partition="gpu", cpu_partition="cqu")
    with pytest.raises(ConfigError, match="exists; choose another name, or give --force"):
        write_profile(facts, tmp_path)
    write_profile(facts, tmp_path, force=True)


@pytest.mark.parametrize(
    ("gres", "kind", "count"),
    [("gpu:a100:8(S:0-1)", "a100", 8), ("lustre:1,gpu:a100:2(IDX:0-1)", "a100", 2), ("gpu:8(S:0-3)", "h100", 8)],
)
def test_counts_and_types(gres: str, kind: str, count: int) -> None:
    facts = gather(FakeSlurm(gres=[gres]), gpu={"a100": "a100-40gb"}.get(kind, kind))
    assert (facts.gpu.type, facts.processes_per_node) == (kind, count)


@pytest.mark.parametrize("row", [line for line in CASES.read_text().splitlines() if line[:1] not in ("", "#")])
def test_gres_as_sites_write_it(row: str) -> None:
    gres, wanted = row.split("\t")
    slurm = FakeSlurm(gres=[gres])
    if wanted == "none":
        assert "partition gpu has no GPUs" in refuse(slurm, partition="gpu")
    elif "mixed" in wanted:
        assert "mixes ampere and turing" in refuse(slurm, gpu="a100-80gb")
    else:
        kind, count = wanted.replace(";", "").split()[:2]
        facts = gather(slurm, gpu="a100-80gb")
        assert (facts.gpu.type, facts.processes_per_node) == ("a100-80gb" if kind == "untyped" else kind, int(count))


def test_a_mixed_node_is_refused_with_both_types_until_one_is_chosen() -> None:
    slurm = FakeSlurm(gres=["gpu:v100:1,gpu:a100:3"])
    sentence = refuse(slurm)
    assert "a100 and v100" in sentence
    assert "--gpu-type" in sentence
    facts = gather(slurm, gpu_type="a100", gpu="a100-80gb")
    assert (facts.gres_type, facts.processes_per_node) == ("a100", 3)
    assert "one of a100, v100" in refuse(slurm, gpu_type="h100")


def test_the_person_is_asked_about_a_mixed_node() -> None:
    asked = []

    def prompt(question: str, default: str | None, options: object) -> str:
        asked.append(question)
        return "a100" if "mixes" in question else "a100-40gb" if "which GPU" in question else default or ""

    facts = gather_profile("new", Answers({}, prompt), run=FakeSlurm(gres=["gpu:v100:1,gpu:a100:3"]))
    assert facts.gpu.type == "a100"
    assert any("mixes a100 and v100" in question for question in asked)


@pytest.mark.parametrize(
    ("gres", "words"), [("(null)", "has no GPUs"), ("shard:32", "has no GPUs"), ("gpu:1g.10gb:28", "56 MIG slices")]
)
def test_a_partition_without_whole_gpus_is_said_to_have_none(gres: str, words: str) -> None:
    assert words in refuse(FakeSlurm(gres=[gres]), partition="gpu")
    assert "no partition has whole GPUs" in refuse(FakeSlurm(gres=[gres]))


def test_mig_slices_beside_whole_gpus_are_not_counted() -> None:
    facts = gather(FakeSlurm(gres=["gpu:ampere:6(S:0-1),gpu:1g.10gb:28(S:0-1)"]), gpu="a100-80gb")
    assert (facts.gpu.type, facts.processes_per_node) == ("ampere", 6)


def test_gpus_that_slurm_does_not_count() -> None:
    slurm = FakeSlurm(gres=["(null)"])
    given = {"partition": "gpu", "gres_style": "none", "gpu": "a100-40gb"}
    assert "give --processes-per-node" in refuse(slurm, **given)
    facts = gather(slurm, **given, processes_per_node=3)
    assert (facts.gres_style, facts.processes_per_node, facts.cpus_per_process) == ("none", 3, 21)


def test_memory_that_the_name_does_not_tell_is_asked_for_or_told_by_a_feature() -> None:
    assert "a100-40gb or a100-80gb? Say it with --gpu" in refuse(FakeSlurm(gres=["gpu:a100:4"]))
    assert gather(FakeSlurm(gres=["gpu:a100:4"], features=["hbm80g"])).gpu.memory_gib == 79.1


def test_nodes_of_the_other_memory_are_kept_out_by_a_constraint() -> None:
    slurm = FakeSlurm(gres=["gpu:a100:4", "gpu:a100:4"], features=["gpu,hbm40g", "gpu,hbm80g"])
    facts = gather(slurm, gpu="a100-80gb")
    assert facts.constraint == "hbm80g"


def test_part_of_a_node_takes_its_share_of_memory() -> None:
    assert gather(FakeSlurm(), processes_per_node=2).memory_per_node == "256000M"
    assert "1 to 4" in refuse(FakeSlurm(), processes_per_node=5)


@pytest.mark.parametrize(("gres", "words"), [("gpu:mi250x:8", "an AMD GPU"), ("gpu:quadro:2", "is not in the table")])
def test_other_gpus_are_refused_in_a_sentence(gres: str, words: str) -> None:
    assert words in refuse(FakeSlurm(gres=[gres]))


def test_the_partition_must_be_clear() -> None:
    lines = [partition_line("a", default="NO"), partition_line("b", default="NO")]
    assert "partition: a or b? Say it with --partition" in refuse(FakeSlurm(partitions=lines))
    assert gather(FakeSlurm(partitions=lines), partition="b").partition == "b"
    assert "'c'; here it is one of a, b" in refuse(FakeSlurm(partitions=lines), partition="c")


def test_what_the_cluster_lacks_shapes_the_profile() -> None:
    slurm = FakeSlurm(accounts=None, SelectType="select/linear", PreemptType="preempt/partition_prio")
    facts = gather(slurm)
    assert (facts.accounting, facts.gres_style, facts.preempt_mode) == (False, "gres", "requeue")
    assert gather(FakeSlurm(MinJobAge="60 sec")).status_command == "sacct"


def test_a_limit_is_never_above_the_partition_s() -> None:
    lines = [partition_line(max_time="04:00:00")]
    assert gather(FakeSlurm(partitions=lines)).time_limit_minutes == 240
    assert "1 to 240" in refuse(FakeSlurm(partitions=lines), time_limit=1440)
