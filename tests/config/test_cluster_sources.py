"""Site values from the command line and the environment: they reach the facts character for character."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from neox_train.config.cluster import Cluster, load_cluster, parse_cluster
from neox_train.config.cluster_sources import SITE_KEYS
from tests.config.files import CASES, refuse

TYPED = [
    tuple(line.split("\t"))
    for line in (CASES / "05-account.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]
FACTS = "executor: slurm\naccount: null\npartition: gpu\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(FACTS)
    return path


def as_snakemake(text: str) -> object:
    """What Snakemake makes of a value of --config."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@pytest.mark.parametrize(("typed", "wanted"), TYPED)
@pytest.mark.parametrize("key", ["account", "partition", "qos", "reservation", "mail_user"])
def test_text_of_the_command_line_is_kept(file: Path, key: str, typed: str, wanted: str) -> None:
    entry = f"{key}={typed}"
    facts = {**yaml.safe_load(FACTS), key: as_snakemake(typed), "pipeline": "p.yaml"}
    for cluster in (
        load_cluster(file, command_line=[entry]),
        parse_cluster(facts, files=[file], command_line=["pipeline=p.yaml", entry]),
    ):
        assert getattr(cluster, key) == wanted


@pytest.mark.parametrize(("typed", "wanted"), [('"0123"', "0123"), ("a=b", "a=b"), ("@x: y", "@x: y"), ("", None)])
def test_quotes_and_odd_characters(file: Path, typed: str, wanted: str | None) -> None:
    assert load_cluster(file, command_line=[f"account={typed}"]).account == wanted


def test_numbers_truth_values_and_blocks_are_read_as_in_the_file(file: Path) -> None:
    entries = ["time_limit_minutes=60", "internet=false", "cpu_stages={partition: 007}"]
    cluster = load_cluster(file, command_line=entries)
    assert (cluster.time_limit_minutes, cluster.internet, cluster.cpu_stages.partition) == (60, False, "007")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("time_limit_minutes=soon", "--config time_limit_minutes: time_limit_minutes is 'soon'; a whole number"),
        ("account", "--config account is not KEY=VALUE"),
    ],
)
def test_mistakes_name_the_command_line(file: Path, entry: str, words: str) -> None:
    assert words in refuse(lambda: load_cluster(file, command_line=[entry]))


def test_the_environment_fills_what_neither_file_nor_command_line_says(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in SITE_KEYS:
        monkeypatch.setenv(f"NEOX_TRAIN_{key.upper()}", "0123456")
    cluster = load_cluster(file, command_line=["qos=typed"])
    assert (cluster.account, cluster.constraint, cluster.mail_user) == ("0123456", "0123456", "0123456")
    assert (cluster.partition, cluster.qos) == ("gpu", "typed")


def test_facts_written_for_a_stage_are_not_changed_by_its_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEOX_TRAIN_ACCOUNT", "mine")
    merged = load_cluster(file, command_line=["account=typed"])
    assert parse_cluster(merged.model_dump(mode="json")) == merged


def test_site_keys_are_keys_of_the_file() -> None:
    assert set(SITE_KEYS) <= set(Cluster.model_fields)
