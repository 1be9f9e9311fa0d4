"""The estimate stage of a run: resolved configuration, estimate, picture, and the marker that opens the gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from neox_train.config.cluster import Cluster
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.pipeline import Pipeline
from neox_train.config.run import resolve_run
from neox_train.config.run_file import write_run_config
from neox_train.config.schema import NeoxConfig
from neox_train.config.support import require_trainable
from neox_train.data.manifest import load_manifest
from neox_train.errors import DoesNotFitError
from neox_train.files import sha256_file, storage_errors, write_json
from neox_train.memory.calibration import read_calibration
from neox_train.memory.estimate import MemoryEstimate, estimate_memory
from neox_train.memory.machine import read_machine
from neox_train.memory.picture import draw_memory
from neox_train.memory.wording import word_remedies


def estimate_run(
    pipeline: Pipeline,
    name: str,
    cluster: Cluster,
    results: Path,
    *,
    force: bool = False,
    accept: Callable[[RunFolder, NeoxConfig], None] = lambda run, config: None,
) -> tuple[NeoxConfig, MemoryEstimate]:
    """Resolve the run ``name``, estimate it, and write config.yml, memory.json, memory.png, then estimated.json.

    The marker is written last, and only for a run that passes the gate or is forced; call ``require_passed`` with the
    result to refuse the others. ``accept`` raises where the run's folder must stay as it is. Raises ConfigError or
    NotBuiltError for a run this cluster cannot train, and LockHeldError for one that trains now with another
    configuration.
    """
    run = RunFolder.of(results, name)
    with storage_errors(run.estimated):
        run.estimated.unlink(missing_ok=True)
    dataset = DatasetFolder.of(results, pipeline.run(name).dataset)
    manifest = load_manifest(dataset.path)
    config = resolve_run(pipeline, name, cluster, results, vocab_size=manifest.vocab_size)
    require_trainable(config, cluster)
    accept(run, config)
    estimate = estimate_memory(config, cluster, read_calibration(results, cluster.name), read_machine())
    write_run_config(run, config)
    write_json(run.memory_json, {"run": name, "forced": force, **estimate.to_dict()})
    draw_memory(estimate, run.memory_png, title=name)
    if force or estimate.passes:
        write_json(run.estimated, _vouch(run, config, estimate, force))
    return config, estimate


def require_passed(estimate: MemoryEstimate, *, subject: str, force: bool) -> None:
    """Raise DoesNotFitError, one sentence with numbers and remedies, when the gate refuses and nobody forced it."""
    if estimate.passes or force:
        return
    if estimate.machine is not None and estimate.verdict != "does_not_fit":
        raise DoesNotFitError(f"{subject} does not fit: {estimate.machine.word()}; --force lets it pass")
    raise DoesNotFitError(f"{subject} {estimate.sentence}; {word_remedies(estimate)}; --force lets it pass")


def _vouch(run: RunFolder, config: NeoxConfig, estimate: MemoryEstimate, force: bool) -> dict[str, Any]:
    return {
        "run": run.name,
        "verdict": estimate.verdict,
        "forced": force and not estimate.passes,
        "total_bytes": estimate.total,
        "budget_bytes": estimate.budget,
        "training_digest": config.training_digest(),
        "files": {path.name: sha256_file(path) for path in (run.config_file, run.memory_json, run.memory_png)},
    }
