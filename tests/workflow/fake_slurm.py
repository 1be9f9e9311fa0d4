"""Slurm commands that record how they were called: what the plugin asks for, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.workflow.working_copy import REPOSITORY, WorkingCopy

SBATCH = """#!{python}
import json, os, sys
with open({record!r}, "a") as file:
    file.write(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}) + "\\n")
sys.exit("sbatch: error: recorded, not submitted")
"""
ANSWERS = {
    "sinfo": "PARTITION\ngpu*",
    "scontrol": "MinJobAge = 300 sec\nMaxArraySize = 1001",
    "squeue": "",
    "sacct": "",
}


@dataclass
class FakeSlurm:
    """A folder first on PATH; every sbatch is refused after its arguments are written down."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, accounts: str = "") -> FakeSlurm:
        folder.mkdir()
        fake = cls(folder)
        for name, answer in {**ANSWERS, "sacctmgr": accounts}.items():
            fake._write(name, f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\n")
        fake._write("sbatch", SBATCH.format(python=sys.executable, record=str(fake.record)))
        return fake

    @property
    def record(self) -> Path:
        return self.folder / "calls.jsonl"

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.record.read_text().splitlines()] if self.record.exists() else []

    def submit(self, copy: WorkingCopy, *arguments: str, config: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Run Snakemake with the h100 profile until every submission is refused; the calls that sbatch saw."""
        code, text = self._snakemake(copy, "h100", config, *arguments)
        assert code != 0 and self.calls(), text
        return self.calls()

    def refuse(self, copy: WorkingCopy) -> str:
        """What Snakemake says of a profile that it does not start with."""
        code, text = self._snakemake(copy, "h100", ())
        assert code != 0, text
        return text

    def dry_run(self, copy: WorkingCopy, *, profile: str, config: Sequence[str]) -> str:
        """What Snakemake would do."""
        code, text = self._snakemake(copy, profile, config, "--dry-run")
        assert code == 0, text
        return text

    def _snakemake(self, copy: WorkingCopy, profile: str, config: Sequence[str], *arguments: str) -> tuple[int, str]:
        options = ["--profile", f"cluster_profiles/{profile}", "--config", "pipeline=pipeline.yaml", *config]
        if "--dry-run" not in arguments:
            # The plugin waits that long before it ends, also where nothing was submitted.
            options += ["--slurm-init-seconds-before-status-checks", "1"]
        path = f"{self.folder}:{os.environ['PATH']}"
        result = subprocess.run(
            [sys.executable, "-m", "snakemake", *options, *arguments],
            cwd=copy.folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY)},
            timeout=120,
            check=False,
        )
        return result.returncode, result.stdout + result.stderr

    def _write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)


def edit_profile(copy: WorkingCopy, name: str, **changes: Any) -> None:
    """Lay keys over a profile's config.yaml; None takes one away."""
    file = copy.folder / "cluster_profiles" / name / "config.yaml"
    merged = {**yaml.safe_load(file.read_text()), **changes}
    file.write_text(yaml.safe_dump({key: value for key, value in merged.items() if value is not None}))


def value_of(call: dict[str, Any], *names: str) -> str | None:
    """Value of an option given as ``-t 90``, ``--gres=gpu:1`` or ``--mem 4000``."""
    arguments = call["arguments"]
    for index, word in enumerate(arguments):
        if word in names:
            return str(arguments[index + 1])
        for name in names:
            if word.startswith(f"{name}="):
                return str(word.removeprefix(f"{name}="))
    return None
