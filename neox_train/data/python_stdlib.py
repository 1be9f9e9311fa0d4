"""The standard library of the running interpreter as a corpus: real text on every machine, without a download."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from neox_train.data.sources import SourceFile
from neox_train.errors import DataError

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


def list_modules() -> list[SourceFile]:
    """Source files of the standard library by relative path, without installed packages and test folders."""
    root = Path(sysconfig.get_path("stdlib"))
    relative = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py") if path.is_file())
    names = [name for name in relative if not _LEFT_OUT.intersection(name.split("/")[:-1])]
    if not names:
        raise DataError(
            f"{root} holds no source files of the standard library; use an interpreter that ships them, "
            "or `source: {kind: files}`"
        )
    return [SourceFile(name, root / name, "text") for name in names]
