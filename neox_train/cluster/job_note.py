"""What the submitter leaves in a job's log folder for its ranks: the cluster's facts and its own software."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neox_train.cluster.node_facts import describe_software
from neox_train.config.cluster import Cluster, parse_cluster
from neox_train.files import read_json, write_json

_NAME = "submission.json"


@dataclass(frozen=True)
class JobNote:
    """The cluster's facts, and the submitter's interpreter, package versions and code digest."""

    cluster: Cluster
    software: dict[str, Any]
    signal_lead_seconds: int

    @classmethod
    def write(cls, folder: Path, cluster: Cluster, *, signal_lead_seconds: int) -> None:
        """Write the note of the calling process."""
        facts = cluster.model_dump(mode="json")
        note = {"cluster": facts, "software": describe_software(), "signal_lead_seconds": signal_lead_seconds}
        write_json(folder / _NAME, note)

    @classmethod
    def read(cls, folder: Path) -> JobNote | None:
        """The note in ``folder``; None where a job has none."""
        content = read_json(folder / _NAME)
        if content is None:
            return None
        return cls(parse_cluster(content["cluster"]), content["software"], int(content["signal_lead_seconds"]))
