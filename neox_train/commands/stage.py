"""What every stage command does around its work: leave a word for whoever reports the workflow's end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from neox_train.config.layout import FAILURE_NAME, STAGE_NAME, STOPPED
from neox_train.errors import StoppedError, StorageError, UserError
from neox_train.files import find_record, write_json
from neox_train.holder import Holder


@contextmanager
def stage(name: str, folder: Path, *, subject: str, command: str) -> Iterator[None]:
    """Run one stage's work in ``folder``; a failure is written to failure.json and raised again.

    ``subject`` names the run or dataset ("run serial"), ``command`` the line that continues. Success removes the file.
    stage.json is there while the stage runs, so that one that was killed is known to have begun. The id in both is new
    each time: two machines' clocks need not agree on which failure is whose.
    """
    failure, begun = Path(folder) / FAILURE_NAME, Path(folder) / STAGE_NAME
    record = {"id": uuid.uuid4().hex, "stage": name, "subject": subject, "command": command}
    with suppress(OSError):
        failure.unlink(missing_ok=True)
    # A disk that takes no file must not hide the error that says so.
    with suppress(StorageError, OSError):
        write_json(begun, {**record, "holder": asdict(Holder.this_process(f"neox-train {name}"))})
    try:
        yield
    except Exception as error:
        sentence = str(error) if isinstance(error, UserError) else f"unexpected {type(error).__name__}: {error}"
        outcome = {"outcome": STOPPED} if isinstance(error, StoppedError) else {}
        # A folder that was removed meanwhile must not come back with nothing but this word.
        if Path(folder).is_dir():
            with suppress(StorageError, OSError):
                write_json(failure, {**record, **outcome, "sentence": sentence})
        raise
    finally:
        _remove_own(begun, record["id"])


def _remove_own(begun: Path, stage_id: str) -> None:
    """Remove stage.json unless another process began a stage here since."""
    with suppress(OSError):
        if (find_record(begun) or {}).get("id") == stage_id:
            begun.unlink(missing_ok=True)
