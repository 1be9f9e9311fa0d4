"""Why Slurm's daemons killed the ranks, from what they wrote into the job's log: known without any accounting."""

from __future__ import annotations

import re
from collections.abc import Sequence

from neox_train.cluster import causes
from neox_train.cluster.endings import CANCELLED, CRASHED, STOPPED, Ending, ending_by_word

_CANCELLED = re.compile(r"\*\*\* JOB [\d.]+ ON \S+ CANCELLED AT \S+ \*\*\*")
"""A cancelled job's line gives no reason; displaced, requeued and failed nodes' jobs go on with ``DUE TO``."""
_MEMORY = re.compile(r"exceeded (?:job )?memory limit|oom[_-]kill|out of memory", re.IGNORECASE)
_ERROR = re.compile(
    r"traceback|\w*error\b|\bfatal\b|\bkilled\b|\baborted\b|segmentation|out of memory|oom[_-]kill", re.IGNORECASE
)


def heed_log(ending: Ending, lines: Sequence[str]) -> Ending:
    """``ending``, unless ``lines``, the last ones of the job's log, say that the job was cancelled or that its memory
    was full. An error of the program's own stays as it is.
    """
    if ending.outcome not in (CRASHED, STOPPED):
        return ending
    if any(_CANCELLED.search(line) for line in lines):
        return Ending(CANCELLED, "the job was cancelled, says its log", cause=causes.CANCELLED)
    if ending.outcome == CRASHED and any(
        line.startswith(("slurmstepd", "srun")) and _MEMORY.search(line) for line in lines
    ):
        return ending_by_word("OUT_OF_MEMORY", rank=ending.rank)
    return ending


def tells_of_error(lines: Sequence[str]) -> bool:
    """Whether what a rank printed last may say why it ended, and is not only its steps and notices."""
    return any(_ERROR.search(line) for line in lines)
