"""Doing a thing on every rank so that all succeed or all fail: no rank waits for one that has given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch.distributed as dist

from neox_train import errors

T = TypeVar("T")


@dataclass(frozen=True)
class Failure:
    """Why one rank failed: the error's class, its message, and the operating system's number where it has one."""

    rank: int
    kind: str
    message: str
    errno: int | None

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an error of this rank; its cause's errno where a UserError wraps an OSError."""
        source = error.__cause__ or error
        return cls(get_rank(), type(error).__name__, str(error), getattr(source, "errno", None))

    def to_error(self) -> Exception:
        """The error every rank raises: the same UserError, or a RuntimeError naming the rank."""
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.UserError):
            return kind(self.message)
        return RuntimeError(f"rank {self.rank} failed with {self.kind}: {self.message}")


class RanksFailedError(Exception):
    """At least one rank failed; every rank raises it with the same list."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__(failures[0].message)
        self.failures = failures


@contextmanager
def raising_the_first() -> Iterator[None]:
    """Raise on every rank, in place of RanksFailedError, the error of the first rank that failed."""
    try:
        yield
    except RanksFailedError as failed:
        raise failed.failures[0].to_error() from failed


def get_rank() -> int:
    """Global rank; 0 without torch.distributed."""
    return dist.get_rank() if dist.is_initialized() else 0


def get_world_size() -> int:
    """Number of ranks; 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_initialized() else 1


def gather_all(value: T) -> list[T]:
    """Every rank's value, in rank order, on every rank."""
    if get_world_size() == 1:
        return [value]
    values: list[T] = [value] * get_world_size()
    dist.all_gather_object(values, value)
    return values


def gather_to_first(value: T) -> list[T]:
    """Every rank's value on rank 0; an empty list elsewhere."""
    if get_world_size() == 1:
        return [value]
    values: list[T | None] | None = [None] * get_world_size() if get_rank() == 0 else None
    dist.gather_object(value, values, dst=0)
    return [value for value in values or [] if value is not None]


def run_together(action: Callable[[], T]) -> T:
    """Run ``action`` here and elsewhere; if it fails on any rank, raise RanksFailedError on every rank."""
    result: T | None = None
    failure: Failure | None = None
    try:
        result = action()
    except Exception as error:
        failure, cause = Failure.of(error), error
    failures = [outcome for outcome in gather_all(failure) if outcome is not None]
    if failures:
        raise RanksFailedError(failures) from (cause if failure else None)
    return result  # type: ignore[return-value]


def run_on_first(action: Callable[[], T]) -> T:
    """Run ``action`` on rank 0 alone and give every rank its result; a failure is raised on every rank."""
    result = run_together(lambda: action() if get_rank() == 0 else None)
    return gather_all(result)[0]  # type: ignore[return-value]
