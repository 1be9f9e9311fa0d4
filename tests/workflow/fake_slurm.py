"""Slurm commands that record how they were called: what the plugin asks for, without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.workflow.working_copy import WorkingCopy

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

    def submit(self, copy: WorkingCopy, *config: str, profile: str = "cluster_profiles/h100") -> dict[str, Any]:
        """Run Snakemake up to its first submission, tokenize; the call that sbatch saw."""
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--profile",
            profile,
            "--config",
            "pipeline=pipeline.yaml",
            *config,
        ]
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PYTHONPATH": str(copy.folder)}
        environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
        result = subprocess.run(
            [*command, "--until", "tokenize"],
            cwd=copy.folder,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
        calls = self.calls()
        assert len(calls) == 1, result.stdout + result.stderr
        return calls[0]

    def _write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)


def edit_profile(copy: WorkingCopy, name: str, **changes: Any) -> None:
    """Lay keys over a profile's config.yaml."""
    file = copy.folder / "cluster_profiles" / name / "config.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **changes}))


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
