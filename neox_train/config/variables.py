"""Environment variables that this program's own processes hand to each other."""

from __future__ import annotations

import os

LAUNCHER_PID = "NEOX_TRAIN_LAUNCHER_PID"
"""Process that local ranks must not outlive."""

ALLOW_CHANGE = "NEOX_TRAIN_ALLOW_CHANGE"
"""Keys, separated by commas, that a resumed run may change all the same (``--allow-change``)."""

FLIGHT_PREFIX = "NEOX_TRAIN_FLIGHT_PREFIX"
"""Head of the file names under which ranks that hang dump torch's flight recorder."""


def allowed_changes() -> set[str]:
    """The keys that ``ALLOW_CHANGE`` lists."""
    return {key.strip() for key in os.environ.get(ALLOW_CHANGE, "").split(",") if key.strip()}
