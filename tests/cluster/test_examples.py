"""The worked examples of docs/clusters.md: laid over the profile it starts from, each is a whole cluster file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from neox_train.cluster.requests import request_options, stage_requests
from neox_train.config.cluster import Cluster, load_cluster

NAMES = {"Perlmutter": "a100", "Snellius": "h100", "Lonestar6": "a100"}


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest, repository: Path, tmp_path: Path) -> tuple[str, Cluster]:
    name = request.param
    text = (repository / "docs" / "clusters.md").read_text()
    section = next(part for part in re.split(r"^### ", text, flags=re.MULTILINE) if part.startswith(name))
    changes = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)[0])
    base = yaml.safe_load((repository / "cluster_profiles" / NAMES[name] / "cluster.yaml").read_text())
    if name == "Lonestar6":
        base |= {"partition": "gpu-a100", "gres_style": "none", "processes_per_node": 3}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(_lay_over(base, changes)))
    return name, load_cluster(file)


def _lay_over(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _lay_over(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged


def test_an_example_asks_for_what_its_text_says(example: tuple[str, Cluster]) -> None:
    name, cluster = example
    options = request_options(cluster, 2)
    stages = dict(stage_requests(cluster, {"set-resources": {"evaluate": {"runtime": 60}}}))
    if name == "Perlmutter":
        assert {"--constraint=gpu&hbm80g", "--qos=regular", "--gpus-per-node=4", "--cpus-per-task=32"} <= set(options)
        assert not any(word.startswith("--partition") for word in options)
        assert {"--constraint=cpu", "--account=m1234", "--qos=shared"} <= set(stages["tokenize"])
        assert "--constraint=gpu&hbm80g" in stages["evaluate"]
    elif name == "Snellius":
        assert {"--partition=gpu_h100", "--gpus-per-node=4", "--cpus-per-task=16", "--mem=0"} <= set(options)
        assert "--partition=rome" in stages["convert"]
    else:
        assert {"--partition=gpu-a100", "--ntasks-per-node=3"} <= set(options)
        assert not any(("gpu" in word and "partition" not in word) or "--mem" in word for word in options)
        assert not any("gres" in word for word in stages["evaluate"])


def test_the_examples_say_that_nobody_ran_them(repository: Path) -> None:
    text = (repository / "docs" / "clusters.md").read_text()
    assert "From public documentation, re-check before use; nothing below was run there." in text
