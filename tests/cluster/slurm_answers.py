"""What Slurm's commands answer, for tests of those who ask them."""

from __future__ import annotations

from collections.abc import Sequence

from neox_train.cluster.slurm_state import Answer

PARTITION = (
    "PartitionName={name} AllowGroups=ALL AllowAccounts={accounts} AllowQos=ALL AllocNodes=ALL Default={default} "
    "QoS=N/A DefaultTime=00:10:00 DisableRootJobs=NO MaxNodes={max_nodes} MaxTime={max_time} MinNodes=0 "
    "Nodes=node[1-4] OverTimeLimit=NONE PreemptMode=REQUEUE State={state} TotalCPUs=256 TotalNodes=4 "
    "TRES=cpu=256,mem=1000G,node=4,billing=256"
)
CONFIGURATION = {
    "ClusterName": "tern",
    "MinJobAge": "300 sec",
    "PreemptType": "preempt/none",
    "SelectType": "select/cons_tres",
    "SLURM_VERSION": "24.05.3",
    "AccountingStorageType": "accounting_storage/slurmdbd",
}


def partition_line(name: str = "gpu", **changes: str) -> str:
    """One line of ``scontrol -o show partition``."""
    facts = {"accounts": "ALL", "default": "YES", "max_nodes": "UNLIMITED", "max_time": "2-00:00:00", "state": "UP"}
    return PARTITION.format(name=name, **{**facts, **changes})


class FakeSlurm:
    """Answers by the first words of a command, and remembers what was asked."""

    def __init__(
        self,
        *,
        gres: Sequence[str] = ("gpu:h100:4",),
        features: Sequence[str] = (),
        partitions: Sequence[str] = (partition_line(),),
        accounts: Sequence[str] | None = ("physics||normal,long",),
        test_only: Answer | None = None,
        **configuration: str,
    ) -> None:
        self.asked: list[list[str]] = []
        names = [line.split()[0].partition("=")[2] for line in partitions]
        words = list(features) or ["(null)"] * len(gres)
        self._answers = {
            "scontrol show config": "\n".join(f"{k:<24}= {v}" for k, v in {**CONFIGURATION, **configuration}.items()),
            "scontrol -o show partition": "\n".join(partitions),
            "scontrol -o show node": "\n".join(
                f"NodeName=node{index} Arch=x86_64 CPUTot=64 AvailableFeatures={words[index]} Gres={text} NodeAddr=n "
                "OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian 6.1 RealMemory=512000 State=IDLE CfgTRES=cpu=64,mem=500G"
                for index, text in enumerate(gres)
            ),
            "sinfo": "\n".join(
                f"{name}{'*' if not place else ''}|2|64|512000|{words[index]}|{text}"
                for place, name in enumerate(names)
                for index, text in enumerate(gres)
            ),
        }
        self._accounts = accounts
        self._test_only = test_only or Answer(0, "", "sbatch: Job 9 to start at 2026-01-01T00:00:00 in partition gpu")

    def __call__(self, command: Sequence[str]) -> Answer:
        self.asked.append(list(command))
        if command[0] == "sacctmgr":
            return Answer(1, "", "disabled") if self._accounts is None else Answer(0, "\n".join(self._accounts), "")
        if command[0] == "sbatch":
            return self._test_only
        return next(Answer(0, text, "") for start, text in self._answers.items() if " ".join(command).startswith(start))
