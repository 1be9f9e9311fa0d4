"""Processes that share one card: each is started early, and trains once its memory fits beside the others'."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_WAITING = 3
"""Processes that have imported their libraries and wait for memory, beside those that train."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training in its own process, with the memory it is expected to take."""

    name: str
    run_folder: Path
    log: Path
    result: Path
    steps: int
    gpu_gib: float
    host_gib: float


@dataclass(kw_only=True)
class _Child:
    job: Job
    process: subprocess.Popen[str]
    started: float = 0.0
    """When it was let go; 0 while it waits."""
    shared_with: set[str] = field(default_factory=set)


def run_jobs(
    jobs: list[Job],
    *,
    gpu_gib: float,
    host_gib: float,
    processes: int,
    row_seconds: float,
    deadline: float,
    environment: dict[str, str],
) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run every job in about the given order; yields each with its result as it ends.

    A job goes when its memory fits beside what runs, or alone. ``deadline`` is a time of ``time.monotonic``: what runs
    then is ended, what waits is told as not run.
    """
    queue, children = list(jobs), list[_Child]()
    variables = {**os.environ, **environment}
    try:
        while queue or children:
            now = time.monotonic()
            while queue and len(children) < processes + _WAITING and now < deadline:
                children.append(_start(queue.pop(0), variables))
            _let_go(children, gpu_gib, host_gib, processes)
            for child in list(children):
                if (told := _look(child, now, row_seconds, deadline)) is not None:
                    children.remove(child)
                    yield child.job, told
            if now >= deadline and not children:
                for job in queue:
                    yield job, {"error": ["not run: the deadline came first"]}
                return
            time.sleep(_POLL_SECONDS)
    finally:
        for child in children:
            _end(child.process)


def _start(job: Job, variables: dict[str, str]) -> _Child:
    job.result.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.memory_child"]
    command += [str(job.run_folder), str(job.result), str(job.steps)]
    with job.log.open("w") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            env=variables,
            start_new_session=True,
        )
    return _Child(job=job, process=process)


def _let_go(children: list[_Child], gpu_gib: float, host_gib: float, processes: int) -> None:
    """Let go whoever is ready and fits, in the order of the queue."""
    for child in children:
        running = [other for other in children if other.started]
        if child.started or len(running) >= processes or "ready" not in child.job.log.read_text():
            continue
        gpu = sum(other.job.gpu_gib for other in running) + child.job.gpu_gib
        host = sum(other.job.host_gib for other in running) + child.job.host_gib
        if running and (gpu > gpu_gib or host > host_gib):
            continue
        assert child.process.stdin is not None
        try:
            child.process.stdin.write("go\n")
            child.process.stdin.flush()
        except BrokenPipeError:
            continue
        child.started = time.monotonic()
        for other in running:
            other.shared_with.add(child.job.name)
            child.shared_with.add(other.job.name)


def _look(child: _Child, now: float, row_seconds: float, deadline: float) -> dict[str, Any] | None:
    """The job's result once its process has ended or had to be ended; None while it may go on."""
    ended = child.process.poll() is not None
    if not ended and now < deadline and not (child.started and now - child.started > row_seconds):
        return None
    limit = "" if ended else ("the deadline came first" if now >= deadline else f"no result within {row_seconds:g} s")
    _end(child.process)
    seconds = round(now - child.started, 1) if child.started else 0.0
    told: dict[str, Any] = {"seconds": seconds, "shared_with": sorted(child.shared_with)}
    if child.job.result.is_file():
        return {**told, **json.loads(child.job.result.read_text())}
    lines = child.job.log.read_text(errors="replace").splitlines()[-12:]
    return {**told, "error": [limit or f"ended with {child.process.returncode}", *lines]}


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and the compile workers of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
