"""Looking at a run's data before processes start: in a process of its own, so that a follower stays small.

``python -m neox_train.cluster.visible_data RUN_FOLDER`` prints what is wrong, and exits with 2 then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from neox_train.cluster.completion import read_run_config
from neox_train.config.layout import RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import list_data_paths
from neox_train.data.pair_files import is_pair
from neox_train.errors import ConfigError, UserError


def require_visible_data(config: NeoxConfig) -> None:
    """Raise ConfigError or DataError where the data are not what the configuration needs.

    Data of which nothing is seen here may lie on the compute nodes alone; the ranks look there.
    """
    if any(os.path.exists(path) or is_pair(path) for path in list_data_paths(config)):
        from neox_train.data.opening import require_data

        require_data(config)


def require_visible_data_apart(run: RunFolder) -> None:
    """The same for the configuration that lies in a run's folder; NumPy and HDF5 are loaded in a child alone.

    Whatever else ends the child says nothing of the data, which the ranks look at again.
    """
    command = [sys.executable, "-m", "neox_train.cluster.visible_data", str(run.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == UserError.exit_code and done.stdout.strip():
        raise ConfigError(done.stdout.strip())


def _main(run_folder: str) -> int:
    try:
        require_visible_data(read_run_config(RunFolder(Path(run_folder))))
    except UserError as error:
        print(error)
        return UserError.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
