"""What every stage command does around its work: leave failure.json for whoever reports the workflow's end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from neox_train.errors import StorageError, UserError
from neox_train.files import write_json


@contextmanager
def stage(name: str, folder: Path, *, subject: str, command: str) -> Iterator[None]:
    """Run one stage's work in ``folder``; a failure is written to failure.json and raised again.

    ``subject`` names the run or dataset ("run serial"), ``command`` the line that continues. Success removes the file.
    """
    failure = Path(folder) / "failure.json"
    with suppress(OSError):
        failure.unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        sentence = str(error) if isinstance(error, UserError) else f"unexpected {type(error).__name__}: {error}"
        record = {"stage": name, "subject": subject, "sentence": sentence, "command": command}
        # A disk that takes no file must not hide the error that says so.
        with suppress(StorageError, OSError):
            write_json(failure, record)
        raise
