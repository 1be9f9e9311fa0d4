"""What an exported folder says of itself, read without torch: login nodes ask whether an export still holds."""

from __future__ import annotations

from neox_train.config.layout import RunFolder
from neox_train.files import find_record

RECORD_NAME = "neox_train.json"
"""File of the export that says what it was made from and lists its files."""


def find_export_problem(run: RunFolder, manifest_sha256: object) -> str | None:
    """Why ``hf/`` and parity.json cannot stand for the checkpoint of that manifest; None where they can.

    Files are compared by presence and size.
    """
    record, parity = find_record(run.hf / RECORD_NAME) or {}, find_record(run.parity) or {}
    for path, content in ((run.hf, record), (run.parity, parity)):
        if content.get("manifest_sha256") != manifest_sha256:
            return f"{path.name} is not made from it"
    if parity.get("within_tolerance") is not True:
        return "its export has other logits"
    files = record.get("files")
    for name, entry in (files if isinstance(files, dict) else {"config.json": {}}).items():
        path = run.hf / name
        if not path.is_file() or path.stat().st_size != entry.get("bytes"):
            return f"{run.hf.name}/{name} is gone or has another size"
    return None
