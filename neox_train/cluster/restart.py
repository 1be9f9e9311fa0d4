"""Whether a training that ended without finishing is started again."""

from __future__ import annotations

from neox_train.cluster.endings import FAILED, Ending


def reason_to_give_up(
    ending: Ending, *, last_step: int | None, furthest_step: int, restarts: int, max_restarts: int
) -> str | None:
    """Why the run is not started again; None when it is.

    ``last_step`` is the last one of the attempt that ended, ``furthest_step`` the highest of the attempts before it,
    ``restarts`` those made so far. A process that was killed gets one more start, an error in the program none, unless
    the attempt went further than any before: the number of restarts alone would spend hours on the same fault.
    """
    if not ending.retry:
        return "it would end the same way again"
    if (last_step or 0) <= furthest_step and (restarts > 0 or ending.outcome == FAILED):
        return "no new step since the last start, so it is not started again"
    if restarts >= max_restarts:
        return f"it was started again {restarts} times already (max_restarts: {max_restarts})"
    return None
