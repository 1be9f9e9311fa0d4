"""The rank of a row whose checkpoint has no room on this disk: ``python -m benchmarks.own_child RUN_FOLDER``.

A measured row is ended before its first save, so the check for that save's room is all that is left out: the rank's
code, loop and metrics are those that ``neox-train train`` starts.
"""

from __future__ import annotations

import sys

from neox_train.training import entry, saving


def main() -> None:
    """Train the run's config.yml until ended from outside."""
    saving.require_space = lambda *_, **__: []  # type: ignore[assignment]
    entry.train_rank(sys.argv[1])


if __name__ == "__main__":
    main()
