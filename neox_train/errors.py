"""Errors that are the user's to mend: one sentence each, shown without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake or a limit the user can act on: the message names the thing, its value, the rule and the remedy.

    The command line prints the message after ``error:`` and exits with ``exit_code``.
    """

    exit_code = 2


class ConfigError(UserError):
    """A configuration, pipeline or cluster file that cannot be used as written."""


class DataError(UserError):
    """A corpus, tokenizer or token store that cannot be used."""


class CheckpointError(UserError):
    """A checkpoint that is missing, torn, or of another run."""


class StorageError(UserError):
    """A folder that cannot be written, or a disk that is full."""

    exit_code = 4


class DoesNotFitError(UserError):
    """A run the memory gate refuses."""

    exit_code = 3


class LockHeldError(UserError):
    """Another live process works on the same run or dataset."""

    exit_code = 5


class TrainingError(UserError):
    """A training that ended without finishing: the message says why and what to do."""

    exit_code = 6


class NotBuiltError(ConfigError):
    """A known GPT-NeoX feature that this project does not implement (yet)."""
