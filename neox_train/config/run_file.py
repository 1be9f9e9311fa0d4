"""A run's config.yml, which living trainings read again whenever their ranks start."""

from __future__ import annotations

from neox_train.config.layout import RunFolder
from neox_train.config.load import dump_yaml, write_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import LockHeldError
from neox_train.locks import hold_lock

_WRITE_SECONDS = 2.0


def write_run_config(run: RunFolder, config: NeoxConfig) -> None:
    """Write the run's configuration, unless the file says the same already.

    Raises LockHeldError, one sentence, where another live process trains the run with another configuration: its next
    restart would go on with this one.
    """
    if _says(run, config):
        return
    try:
        with hold_lock(run.lock, note="writes config.yml", wait_seconds=_WRITE_SECONDS):
            write_config(config, run.config_file)
    except LockHeldError as error:
        if _says(run, config):
            # Another start of the same command was first.
            return
        raise LockHeldError(f"{run.config_file} would change under a run at work: {error}") from error


def restore_run_config(run: RunFolder, config: NeoxConfig) -> None:
    """Write the configuration again where another process changed the file since; the caller holds the run's lock."""
    if not _says(run, config):
        write_config(config, run.config_file)


def _says(run: RunFolder, config: NeoxConfig) -> bool:
    return run.config_file.is_file() and run.config_file.read_bytes() == dump_yaml(config.to_dict()).encode()
