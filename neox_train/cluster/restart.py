"""Whether a training that ended without finishing is started again."""

from __future__ import annotations

from neox_train.cluster import causes
from neox_train.cluster.endings import FAILED, Ending

_NOT_ITS_FAULT = (causes.PREEMPTED, causes.NODE_FAILURE, causes.WALL, causes.TIME_LIMIT, causes.SIGNAL)


def reason_to_give_up(
    ending: Ending, *, last_step: int | None, furthest_step: int, restarts: int, max_restarts: int
) -> str | None:
    """Why the run is not started again; None when it is.

    ``last_step`` is the last one of the attempt that ended, ``furthest_step`` the highest of the attempts before it,
    ``restarts`` those that count (``counts_as_restart``). A process that was killed gets one more start, an error in
    the program none, unless the attempt went further than any before: the number of restarts alone would spend hours
    on the same fault. What the cluster did to the job has the number of restarts as its only limit.
    """
    if not ending.retry:
        return "it would end the same way again"
    stuck = not _has_progress(last_step, furthest_step) and (restarts > 0 or ending.outcome == FAILED)
    if stuck and ending.cause not in _NOT_ITS_FAULT:
        return "no new step since the last start, so it is not started again"
    if restarts >= max_restarts and counts_as_restart(ending, last_step=last_step, furthest_step=furthest_step):
        return f"it was started again {restarts} times already (max_restarts: {max_restarts})"
    return None


def counts_as_restart(ending: Ending, *, last_step: int | None, furthest_step: int) -> bool:
    """Whether starting again uses one of ``max_restarts``: not after a displacement or a wall that left new steps."""
    return ending.cause not in _NOT_ITS_FAULT or not _has_progress(last_step, furthest_step)


def _has_progress(last_step: int | None, furthest_step: int) -> bool:
    return (last_step or 0) > furthest_step
