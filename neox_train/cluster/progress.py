"""How far a training is, read from the end of its metrics file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neox_train.monitoring.quantities import format_seconds


@dataclass(frozen=True)
class Progress:
    """The newest training record and the number of steps wanted."""

    step: int
    train_iters: int
    loss: float | None
    """None where it is not finite."""
    learning_rate: float | None
    tokens_per_second: float | None
    tokens_per_second_per_gpu: float | None
    seconds_per_step: float | None
    mfu: float | None
    skipped_steps: int = 0
    """Steps whose gradients were not finite, of the whole training."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds to the last step at the present speed."""
        return None if self.seconds_per_step is None else max(0, self.train_iters - self.step) * self.seconds_per_step

    def __str__(self) -> str:
        parts = [f"step {self.step}/{self.train_iters}"]
        parts.append("loss not finite" if self.loss is None else f"loss {self.loss:.4f}")
        if self.skipped_steps:
            parts.append(f"{self.skipped_steps} skipped")
        if self.learning_rate is not None:
            parts.append(f"lr {self.learning_rate:.2e}")
        if self.tokens_per_second_per_gpu is not None:
            # Where no MFU is known there may be no GPU: a process is true of both.
            unit = "process" if self.mfu is None else "GPU"
            parts.append(f"{self.tokens_per_second_per_gpu:,.0f} tokens/s/{unit}")
        elif self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:,.0f} tokens/s")
        if self.mfu is not None:
            parts.append(f"MFU {self.mfu:.1%}")
        if self.seconds_left is not None:
            parts.append(f"{format_seconds(self.seconds_left)} left")
        return "  ".join(parts)


class MetricsTail:
    """Reads what was appended to a metrics file since the last look.

    A resumed run rewrites the file without the steps it does again: a file that is another or shorter than before is
    read from its beginning, and the records of steps that are gone are forgotten.
    """

    def __init__(self, file: Path, *, since: float = 0.0) -> None:
        self.file = file
        self.since = since
        self._offset = 0
        self._identity: tuple[int, int] | None = None
        self._train: dict[str, Any] | None = None
        self._first_step: int | None = None
        self._last_step: int | None = None

    def count_from(self, since: float) -> None:
        """Count the steps logged since then, by the clock of the host that logs; those counted so far are forgotten."""
        self.since = since
        self._offset, self._first_step, self._last_step = 0, None, None

    @property
    def steps(self) -> tuple[int | None, int | None]:
        """First and last step logged since ``since`` (seconds since the epoch); None where there is none."""
        return self._first_step, self._last_step

    def read(self, train_iters: int) -> Progress | None:
        """Look for new records; the newest training record as Progress, None before the first."""
        for record in self._new_records():
            if record.get("kind") != "train":
                continue
            self._train = record
            if float(record.get("time", 0.0)) >= self.since:
                step = int(record["step"])
                self._first_step = step if self._first_step is None else min(self._first_step, step)
                self._last_step = step if self._last_step is None else max(self._last_step, step)
        return None if self._train is None else _progress(self._train, train_iters)

    def _new_records(self) -> list[dict[str, Any]]:
        try:
            with open(self.file, "rb") as stream:
                status = self.file.stat()
                identity = (status.st_dev, status.st_ino)
                if identity != self._identity or status.st_size < self._offset:
                    self._identity, self._offset, self._train = identity, 0, None
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [record for line in whole.splitlines() if (record := _parse(line)) is not None]


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "step" in record else None


def _progress(record: dict[str, Any], train_iters: int) -> Progress:
    return Progress(
        step=int(record["step"]),
        train_iters=train_iters,
        loss=record.get("loss"),
        learning_rate=record.get("lr"),
        tokens_per_second=record.get("tokens_per_second"),
        tokens_per_second_per_gpu=record.get("tokens_per_second_per_gpu"),
        seconds_per_step=record.get("seconds_per_step"),
        mfu=record.get("mfu"),
        skipped_steps=int(record.get("skipped_steps") or 0),
    )
