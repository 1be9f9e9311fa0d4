"""Errors that are the user's to mend: one sentence each, shown without a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake or a limit the user can act on: the message names the thing, its value, the rule and the remedy.

    The command line prints the message after ``error:`` and exits with ``exit_code``. ``cause`` is the word under which
    job.json files the ending; ``retry`` says whether the same work made again could end otherwise.
    """

    exit_code: int = 2
    cause = "configuration"
    retry = False


class ConfigError(UserError):
    """A configuration, pipeline or cluster file that cannot be used as written."""


class DataError(UserError):
    """A corpus, tokenizer or token store that cannot be used."""


class CheckpointError(UserError):
    """A checkpoint that is missing, torn, or of another run."""


class StorageError(UserError):
    """A folder that cannot be written, or a disk that is full."""

    exit_code = 4
    cause = "storage"


class DoesNotFitError(UserError):
    """A run the memory gate refuses."""

    exit_code = 3


class LockHeldError(UserError):
    """Another live process works on the same run or dataset."""

    exit_code = 5


class TrainingError(UserError):
    """A training that ended without finishing: the message says why and what to do."""

    exit_code = 6
    cause = "error"


class StoppedError(TrainingError):
    """A training, or its following, that a signal ended as it was asked to: nothing failed.

    The exit code is the shell's for that signal, 128 + its number.
    """

    cause = "signal"
    retry = True

    def __init__(self, sentence: str, signal_number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class NonFiniteError(TrainingError):
    """Losses or gradients that stay without a finite value."""

    cause = "not finite"


class PreflightError(TrainingError):
    """A node or a network that is not what the profile says."""

    cause = "preflight"


class PeerLostError(TrainingError):
    """Another rank is gone, or did not come: its own ending is the cause."""

    cause = "rank lost"
    retry = True


class NotBuiltError(ConfigError):
    """A known GPT-NeoX feature that this project does not implement (yet)."""


def install_extra(extra: str) -> str:
    """The command that adds what an extra of pyproject.toml names: the package itself is on no index."""
    return f"`pip install -e '.[{extra}]'` in the folder of neox-train"
