"""The accounting of the test cluster: a MariaDB server and slurmdbd under the cluster's own folder and ports."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "mariadb")
ACCOUNT = "grant7"


def find_missing_programs() -> list[str]:
    """Programs of the accounting that this machine lacks."""
    return [name for name in PROGRAMS if _find(name) is None]


@dataclass
class Accounting:
    """A database and slurmdbd beside the cluster in ``folder``; ports ``base_port`` + 20 and + 21."""

    folder: Path
    base_port: int
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def configuration(self) -> str:
        """Lines for slurm.conf. With munge, ``AccountingStoragePass`` is the path of its socket."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\n"
            f"AccountingStoragePort={self.base_port + 20}\nAccountingStoragePass={self.folder}/munge/sock\n"
            "AccountingStorageTRES=gres/gpu\nAccountingStorageEnforce=associations\n"
        )

    def start(self, cluster_name: str) -> None:
        """Start both servers, and register the cluster, an account, and this user in it. Needs a running munged."""
        self._start_database()
        self._write_configuration()
        subprocess.run([_program("slurmdbd")], env={**os.environ, **self.environment}, check=True, timeout=30)
        manage = [_program("sacctmgr"), "-i"]
        _wait_until(lambda: self._succeeds([*manage, "add", "cluster", cluster_name]))
        self._run([*manage, "add", "account", ACCOUNT, f"Cluster={cluster_name}"])
        self._run([*manage, "add", "user", getpass.getuser(), f"Account={ACCOUNT}", f"Cluster={cluster_name}"])

    def stop(self) -> None:
        """End both servers."""
        for pid_file in (self.folder / "pids" / "slurmdbd.pid", self.folder / "pids" / "mariadbd.pid"):
            if pid_file.exists():
                os.kill(int(pid_file.read_text()), signal.SIGKILL)

    def _start_database(self) -> None:
        data, socket = self.folder / "db", self.folder / "db.sock"
        user = getpass.getuser()
        self._run(
            [
                _program("mariadb-install-db"),
                "--no-defaults",
                f"--user={user}",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]
        )
        with open(self.folder / "log" / "mariadbd.log", "wb") as log:
            subprocess.Popen(
                [
                    _program("mariadbd"),
                    "--no-defaults",
                    f"--user={user}",
                    f"--datadir={data}",
                    f"--socket={socket}",
                    f"--port={self.base_port + 21}",
                    "--bind-address=127.0.0.1",
                    f"--pid-file={self.folder / 'pids' / 'mariadbd.pid'}",
                    "--innodb-buffer-pool-size=64M",
                    "--innodb-flush-log-at-trx-commit=0",
                ],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        statements = (
            "CREATE DATABASE accounting; CREATE USER 'slurm'@'%' IDENTIFIED BY 'slurm'; "
            "CREATE USER 'slurm'@'localhost' IDENTIFIED BY 'slurm'; GRANT ALL ON accounting.* TO 'slurm'@'%'; "
            "GRANT ALL ON accounting.* TO 'slurm'@'localhost';"
        )
        client = [_program("mariadb"), "--no-defaults", f"--socket={socket}", "--user=root"]
        _wait_until(lambda: self._succeeds([*client, "-e", "SELECT 1"]))
        self._run([*client, "-e", statements])

    def _write_configuration(self) -> None:
        file = self.folder / "slurmdbd.conf"
        file.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge/sock\nDbdHost=localhost\n"
            f"DbdPort={self.base_port + 20}\nSlurmUser={getpass.getuser()}\n"
            f"PidFile={self.folder}/pids/slurmdbd.pid\nLogFile={self.folder}/log/slurmdbd.log\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={self.base_port + 21}\n"
            "StorageUser=slurm\nStoragePass=slurm\nStorageLoc=accounting\n"
        )
        # slurmdbd refuses a file with a password that others can read.
        file.chmod(0o600)

    def _run(self, command: list[str]) -> None:
        subprocess.run(command, env={**os.environ, **self.environment}, check=True, capture_output=True, timeout=60)

    def _succeeds(self, command: list[str]) -> bool:
        result = subprocess.run(
            command, env={**os.environ, **self.environment}, check=False, capture_output=True, timeout=60
        )
        return result.returncode == 0


def _wait_until(condition: Callable[[], bool], timeout_seconds: float = 30) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the accounting did not come up")
        time.sleep(0.2)


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _program(name: str) -> str:
    found = _find(name)
    assert found is not None, name
    return found
