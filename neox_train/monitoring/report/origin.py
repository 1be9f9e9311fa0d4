"""Provenance and attempts of each run, folded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from neox_train.monitoring.markup import Html, element
from neox_train.monitoring.quantities import UNKNOWN, format_integer, format_seconds, is_number
from neox_train.monitoring.report.facts import RunFacts, mapping, ran_seconds
from neox_train.monitoring.report.inputs import Json, RunInputs
from neox_train.monitoring.report.restarts import list_attempts
from neox_train.monitoring.report.tables import write_pairs, write_table


def write_origin(pairs: Sequence[tuple[RunFacts, RunInputs]]) -> Html:
    """One folded block a run."""
    return element(
        "section",
        element("h2", "Provenance"),
        [_write_run(fact, run) for fact, run in pairs],
        class_="card",
        id="provenance",
    )


def describe_commit(provenance: Json) -> str:
    """Short commit and whether the tree had changes; a plain word where there is no git checkout."""
    git = mapping(provenance, "git")
    if not git:
        return "no git checkout" if provenance else "not recorded yet"
    changes = f", {format_integer(git.get('changed_files'))} files changed" if git.get("dirty") else ", clean"
    return f"commit {str(git.get('commit'))[:12]}{changes}"


def _write_run(fact: RunFacts, run: RunInputs) -> Html:
    summary = element(
        "summary",
        element("span", class_=f"dot c{fact.colour}"),
        fact.name,
        " ",
        element("span", describe_commit(run.provenance), class_="meta"),
    )
    body: list[object] = [write_pairs(_rows(run.provenance))] if run.provenance else []
    attempts = list_attempts(run)
    if attempts:
        body += [element("h3", "Attempts", style="margin-top:14px"), _write_attempts(attempts)]
    return element("details", summary, body or element("p", "Nothing recorded yet.", class_="empty"))


def _rows(provenance: Json) -> list[tuple[str, object]]:
    machine, profile = mapping(provenance, "machine"), mapping(provenance, "profile")
    packages = ", ".join(f"{name} {version}" for name, version in mapping(provenance, "packages").items())
    digests = mapping(provenance, "digests")
    gpus = machine.get("gpus")
    names = [str(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    return [
        ("command", element("code", provenance["command"]) if provenance.get("command") else None),
        ("last attempt", provenance.get("time")),
        ("code", describe_commit(provenance) if provenance else None),
        ("submitted from", machine.get("host")),
        ("system", ", ".join(str(machine[key]) for key in ("os", "kernel") if machine.get(key))),
        ("processor", f"{machine.get('cpu')}, {machine.get('cpu_cores')} cores" if machine.get("cpu") else None),
        ("GPUs there", ", ".join(names)),
        ("profile", ", ".join(f"{key}: {value}" for key, value in profile.items())),
        ("Python", provenance.get("python")),
        ("packages", packages),
        ("seeds", ", ".join(f"{key}: {value}" for key, value in mapping(provenance, "seeds").items())),
        *((f"{name} digest", element("code", value)) for name, value in digests.items() if value),
        ("code of earlier attempts", _earlier_commits(provenance)),
    ]


def _earlier_commits(provenance: Json) -> str | None:
    earlier = provenance.get("earlier_attempts")
    records = [item for item in earlier if isinstance(item, dict)] if isinstance(earlier, list) else []
    return ", ".join(dict.fromkeys(str(item.get("commit"))[:12] for item in records)) or None


def _write_attempts(attempts: Sequence[Json]) -> Html:
    names = ("Attempt", "Job", "Submitted", "Waited", "Ran", "Steps", "End")
    return write_table(names, [_attempt_cells(attempt) for attempt in attempts], class_="text")


def _attempt_cells(attempt: Json) -> list[object]:
    submitted, started = (attempt.get(key) for key in ("submitted", "started"))
    first, last = attempt.get("first_step"), attempt.get("last_step")
    reason = attempt.get("reason")
    return [
        attempt.get("number"),
        f"{attempt.get('job_id') or UNKNOWN} ({attempt.get('executor', UNKNOWN)})",
        datetime.fromtimestamp(submitted, UTC).strftime("%Y-%m-%d %H:%M UTC") if is_number(submitted) else UNKNOWN,
        format_seconds(started - submitted) if is_number(started) and is_number(submitted) else UNKNOWN,
        format_seconds(ran_seconds(attempt)),
        f"{format_integer(first)} to {format_integer(last)}" if is_number(first) else UNKNOWN,
        f"{attempt.get('state', UNKNOWN)}{f': {reason}' if reason else ''}",
    ]
