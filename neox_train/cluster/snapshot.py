"""The code that runs is the code that was submitted: a copy of this package, kept with the run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import neox_train
from neox_train.cluster.node_facts import digest_code
from neox_train.config.layout import RunFolder
from neox_train.files import make_folder, read_json, storage_errors, write_json


def take_snapshot(run: RunFolder) -> Path:
    """Folder to put on PYTHONPATH, under the run's ``code``; the same code is copied once."""
    target = run.path / "code" / digest_code()[:16]
    if target.is_dir():
        return target.absolute()
    part = target.with_name(f".{target.name}.{os.getpid()}")
    make_folder(part.parent)
    source = Path(neox_train.__file__).parent
    with storage_errors(target):
        shutil.copytree(source, part / source.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        try:
            part.rename(target)
        except OSError:
            # Another process was first; its copy is the same.
            shutil.rmtree(part, ignore_errors=True)
            if not target.is_dir():
                raise
    return target.absolute()


def note_snapshot(run: RunFolder, snapshot: Path) -> None:
    """Write into the run's provenance which copy its job runs."""
    record = read_json(run.provenance) or {}
    code = {"folder": str(snapshot.relative_to(run.path.absolute())), "sha256": digest_code()}
    write_json(run.provenance, {**record, "code": code})


def code_variables(snapshot: Path) -> dict[str, str]:
    """Environment in which Python finds the snapshot before any other copy.

    PYTHONSAFEPATH keeps the current folder, a checkout as a rule, out of the search path of ``python -m``.
    """
    return {"PYTHONPATH": f"{snapshot}${{PYTHONPATH:+:$PYTHONPATH}}", "PYTHONSAFEPATH": "1"}
