from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from neox_train.config.schemas import generate_schemas, write_schemas


def test_the_committed_schemas_are_those_of_the_records(repository: Path) -> None:
    folder = repository / "workflow" / "schemas"
    generated = generate_schemas()
    assert {file.name for file in folder.glob("*.json")} == generated.keys()
    for name, schema in generated.items():
        assert json.loads((folder / name).read_text()) == schema, f"run `neox-train config schema` to renew {name}"


def test_writing_them(tmp_path: Path) -> None:
    paths = write_schemas(tmp_path)
    assert [json.loads(path.read_text()) for path in paths] == list(generate_schemas().values())


@pytest.mark.parametrize("kind", ["pipeline", "cluster", "training"])
def test_they_are_valid_schemas(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(generate_schemas()[f"{kind}.schema.json"])


def test_they_accept_the_shipped_files_and_refuse_a_mistake(repository: Path) -> None:
    files = {
        "pipeline": sorted((repository / "configs" / "pipelines").glob("*.yaml")),
        "cluster": sorted((repository / "cluster_profiles").glob("*/cluster.yaml")),
        "training": [repository / "configs" / "125M.yml"],
    }
    for kind, paths in files.items():
        validator = jsonschema.Draft202012Validator(generate_schemas()[f"{kind}.schema.json"])
        assert paths
        for path in paths:
            content: dict[str, Any] = yaml.safe_load(path.read_text())
            assert list(validator.iter_errors(content)) == []
            assert list(validator.iter_errors({**content, "partitoin": 1}))
