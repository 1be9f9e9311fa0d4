"""Doctor's short job: the training's own request, with a probe in place of the training, followed for some minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import submitit

from neox_train.cluster.check import FAILED, PASSED, SKIPPED, WARNING, Check, fail, passed
from neox_train.cluster.environment import clean_environment, job_variables
from neox_train.cluster.jobs import ENDED, UNKNOWN, JobState
from neox_train.cluster.node_checks import check_bandwidth, check_node, check_versions
from neox_train.cluster.node_facts import describe_software
from neox_train.cluster.parameters import local_parameters, rank_python, slurm_parameters
from neox_train.cluster.probe import CLUSTER_FILE, SWEEP_FILE, probe_file, probe_rank
from neox_train.cluster.rank_record import log_file
from neox_train.cluster.sbatch import SbatchExecutor
from neox_train.cluster.slurm_state import ask_accounting, classify, run_command
from neox_train.cluster.sweep_chart import check_sweep, draw_picture, draw_text
from neox_train.config.cluster import Cluster
from neox_train.errors import TrainingError
from neox_train.files import make_folder, read_json, write_json

_LIMIT_MINUTES = 10
_POLL_SECONDS = 1.0
_FILE_LAG_SECONDS = 20.0
"""How long files of a node may take to show here after its job ended."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Probe:
    """A submitted probe; ``local_job`` is None in Slurm."""

    job_id: str
    folder: Path
    ranks: int
    submitted: float
    local_job: Any = None

    def missing(self) -> list[int]:
        return [rank for rank in range(self.ranks) if not probe_file(self.folder, rank).is_file()]

    def state(self) -> JobState:
        if self.local_job:
            return JobState(
                ENDED if self.local_job.done() else "running", "ENDED" if self.local_job.done() else "RUNNING"
            )
        answer = run_command(["squeue", "-h", "-a", "-t", "all", "-j", self.job_id, "-o", "%T|%r"])
        if answer.code == 0 and "|" in answer.out:
            return classify(*answer.out.strip().splitlines()[0].split("|", 1))
        return ask_accounting(self.job_id, self.submitted) or JobState(UNKNOWN, "not known to Slurm now")

    def end(self) -> None:
        if self.local_job:
            self.local_job.cancel()
        else:
            run_command(["scancel", self.job_id])


def run_probe(
    cluster: Cluster, results: Path, nodes: int, *, wait_minutes: float, tell: Tell, sweep_seconds: float = 0.0
) -> list[Check]:
    """Submit the probe, wait for it, judge what every rank found; the job is cancelled when waiting ends.

    With ``sweep_seconds`` the ranks measure collectives of all sizes; the rows and their picture lie in its folder.
    """
    folder = make_folder(results / "doctor" / time.strftime("%Y%m%d-%H%M%S")).absolute()
    write_json(folder / CLUSTER_FILE, cluster.model_dump(mode="json"))
    if sweep_seconds:
        write_json(folder / SWEEP_FILE, {"seconds": sweep_seconds})
    try:
        probe = _submit(cluster, nodes, folder)
    except (RuntimeError, TrainingError) as error:
        return [
            fail("job", str(error).strip(), "mend what Slurm names; `sbatch --test-only` above is the same request")
        ]
    tell(f"job {probe.job_id}: {nodes} x {cluster.processes_per_node} ranks, files in {folder}")
    try:
        problem = _await(probe, wait_minutes, tell)
    finally:
        if probe.missing():
            probe.end()
    facts = [read_json(probe_file(folder, rank)) for rank in range(probe.ranks) if rank not in probe.missing()]
    checks = [problem] if problem else [passed("job", f"{probe.job_id}, {probe.ranks} ranks answered")]
    checks += judge(facts, cluster)
    rows = next((each["all_reduce"]["sweep"] for each in facts if "sweep" in each.get("all_reduce", {})), None)
    return checks if rows is None else [*checks, _report_sweep(rows, cluster, folder, sweep_seconds, tell)]


def _report_sweep(
    rows: list[dict[str, Any]], cluster: Cluster, folder: Path, sweep_seconds: float, tell: Tell
) -> Check:
    floor = cluster.preflight.all_reduce_gb_per_second
    write_json(folder / SWEEP_FILE, {"seconds": sweep_seconds, "floor_gb_per_second": floor, "rows": rows})
    for line in draw_text(rows, cluster):
        tell(line)
    if rows:
        draw_picture(rows, cluster, folder / "sweep.png")
        tell(f"sweep: {folder / SWEEP_FILE} and sweep.png beside it")
    return check_sweep(rows, cluster)


def _submit(cluster: Cluster, nodes: int, folder: Path) -> _Probe:
    short = cluster.model_copy(update={"time_limit_minutes": min(_LIMIT_MINUTES, cluster.time_limit_minutes)})
    ranks, python = nodes * cluster.processes_per_node, rank_python(cluster)
    if cluster.executor == "slurm":
        parameters = slurm_parameters(short, nodes, name="neox-train-doctor", signal_lead_seconds=30)
        parameters["additional_parameters"].pop("requeue", None)
        executor = SbatchExecutor(folder=folder, python=python)
        executor.update_parameters(**{key: value for key, value in parameters.items() if key != "mail_user"})
        return _Probe(executor.submit_one(probe_rank, str(folder)), folder, ranks, time.time())
    local = submitit.LocalExecutor(folder=folder, python=python)
    local.update_parameters(**local_parameters(short, nodes))
    with clean_environment(job_variables(cluster)):
        job = local.submit(probe_rank, str(folder))
    return _Probe(job.job_id, folder, ranks, time.time(), job)


def _await(probe: _Probe, wait_minutes: float, tell: Tell) -> Check | None:
    """None when every rank has answered; else what became of the job."""
    deadline, said, ended_at = time.monotonic() + wait_minutes * 60, "", None
    while probe.missing():
        state = probe.state()
        word = state.detail
        if word != said:
            tell(f"job {probe.job_id}: {word}")
            said = word
        if state.phase == ENDED:
            ended_at = ended_at or time.monotonic()
            if time.monotonic() - ended_at > _FILE_LAG_SECONDS or word != "COMPLETED":
                return _explain_end(probe, word)
        if time.monotonic() > deadline:
            remedy = "repeat with --wait-minutes, in a debug partition (--config partition=NAME), or with --no-job"
            return fail("job", f"{probe.job_id} is {word} after {wait_minutes:g} minutes; cancelled", remedy)
        time.sleep(_POLL_SECONDS)
    return None


def _explain_end(probe: _Probe, word: str) -> Check:
    missing = probe.missing()
    log = log_file(probe.folder, probe.job_id, missing[0]) if missing else None
    lines = log.read_text(errors="replace").splitlines() if log and log.is_file() else []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    found = f"ended {word or 'early'}, {len(missing)} of {probe.ranks} ranks did not answer: {last}"
    return fail("job", found, f"see {log or probe.folder}; mend setup: and python: when Python did not start")


def judge(ranks: list[dict[str, Any]], cluster: Cluster) -> list[Check]:
    """One line a kind of check: the worst of all ranks, with how many ranks share it."""
    if not ranks:
        return []
    here = describe_software()
    rows: dict[str, list[Check]] = {}
    for facts in ranks:
        for check in [*check_versions(here, facts, cluster), *check_node(facts, cluster)]:
            rows.setdefault(check.name, []).append(check)
    transports = [Check(**facts["transport"]) for facts in ranks if "transport" in facts]
    if len(transports) == len(ranks):
        rows[transports[0].name] = transports
    bandwidth = next((check_bandwidth(facts["all_reduce"], cluster) for facts in ranks if "all_reduce" in facts), None)
    return [_worst(row, ranks) for row in rows.values()] + ([bandwidth] if bandwidth else [])


def _worst(row: list[Check], ranks: list[dict[str, Any]]) -> Check:
    order = (PASSED, SKIPPED, WARNING, FAILED)
    worst = max(row, key=lambda check: order.index(check.status))
    if worst.status not in (WARNING, FAILED) or len(ranks) == 1:
        return worst
    alike = [facts["host"] for facts, check in zip(ranks, row, strict=True) if check.status == worst.status]
    where = f"{len(alike)} of {len(row)} ranks, on {', '.join(sorted(set(alike)))}"
    return replace(worst, found=f"{worst.found} ({where})")
