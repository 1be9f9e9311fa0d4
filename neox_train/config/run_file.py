"""A run's config.yml, which living trainings read again whenever their ranks start."""

from __future__ import annotations

from neox_train.config.layout import RunFolder
from neox_train.config.load import dump_yaml, write_config
from neox_train.config.schema import NeoxConfig
from neox_train.errors import LockHeldError
from neox_train.locks import hold_lock


def write_run_config(run: RunFolder, config: NeoxConfig) -> None:
    """Write the run's configuration, unless the file says the same already.

    Raises LockHeldError, one sentence, where another live process trains the run with another configuration: its next
    restart would go on with this one.
    """
    if run.config_file.is_file() and run.config_file.read_bytes() == dump_yaml(config.to_dict()).encode():
        return
    try:
        with hold_lock(run.lock, note="writes config.yml"):
            write_config(config, run.config_file)
    except LockHeldError as error:
        raise LockHeldError(f"{run.config_file} would change under a run at work: {error}") from error
