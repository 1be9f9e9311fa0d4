"""One line of a diagnosis: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PASSED = "ok"
WARNING = "warning"
FAILED = "failed"
SKIPPED = "skipped"


@dataclass(frozen=True)
class Check:
    """``remedy`` is empty where nothing is to do."""

    name: str
    status: str
    found: str
    remedy: str = ""

    def sentence(self) -> str:
        """``GPU memory: 39.4 GiB; set gpu.memory_gib``."""
        return f"{self.name}: {self.found}" + (f"; {self.remedy}" if self.remedy else "")


def passed(name: str, found: str) -> Check:
    """Nothing to do."""
    return Check(name, PASSED, found)


def warn(name: str, found: str, remedy: str) -> Check:
    """Works, with a risk."""
    return Check(name, WARNING, found, remedy)


def fail(name: str, found: str, remedy: str) -> Check:
    """A training would not start, or not end well."""
    return Check(name, FAILED, found, remedy)


def skip(name: str, found: str) -> Check:
    """Could not be looked at here."""
    return Check(name, SKIPPED, found)


def has_failed(checks: Iterable[Check]) -> bool:
    """Whether any of them failed."""
    return any(check.status == FAILED for check in checks)
