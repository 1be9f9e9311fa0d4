"""The JSON schemas, generated from the records that check the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from neox_train.config.cluster import Cluster
from neox_train.config.pipeline import Pipeline
from neox_train.config.schema import NeoxKeys
from neox_train.files import write_json

_RECORDS: dict[str, type[BaseModel]] = {"pipeline": Pipeline, "cluster": Cluster, "training": NeoxKeys}


def generate_schemas() -> dict[str, dict[str, Any]]:
    """One JSON schema a file name."""
    return {f"{name}.schema.json": record.model_json_schema() for name, record in _RECORDS.items()}


def write_schemas(folder: Path) -> list[Path]:
    """Write every schema into ``folder``; returns their paths."""
    paths = []
    for name, schema in generate_schemas().items():
        write_json(folder / name, schema)
        paths.append(folder / name)
    return paths
