"""The Snakemake half of a Slurm profile, cluster_profiles/NAME/config.yaml: the same text for every partition."""

from __future__ import annotations

from dataclasses import dataclass

_TEXT = """\
# Snakemake's options on a Slurm cluster. The facts of the partition are in cluster.yaml.
# Start it from the root of this repository: Snakemake looks for the profile and the workflow in the current folder.

# Tokenize, convert and evaluate become jobs. Estimate, train and report stay here: they use little memory and load no
# torch, and train is one process that submits the multi-node job and follows it.
executor: slurm

# Jobs of the plugin at once, trainings not counted.
jobs: 64

# A follower of a training needs a thread of Snakemake's, not of the machine. Beside a cluster executor all local rules
# would share five threads unless these are set, and the sixth run would not even be submitted.
cores: 1000
local-cores: 1000

# Facts, found beside this file. Not a `config:` block: `--config account=NAME` would drop it whole.
configfile: cluster.yaml

# A killed Snakemake leaves its folder lock behind; each run and dataset has its own lock, which dies with its holder.
nolock: true

# After a kill the same command goes on, with no flag.
rerun-incomplete: true

# A changed input file, a changed entry of the pipeline file or another set of inputs makes a stage run again; a changed
# version of this program does not retrain finished models.
rerun-triggers:
  - mtime
  - params
  - input

# One failed run does not stop the others.
keep-going: true

# Network file systems show a file of another node late.
latency-wait: 60

# {status_reason}
slurm-status-command: {status_command}

# The first look at a job; the plugin's 40 s is long for a stage of a minute. Later looks are up to 180 s apart.
slurm-init-seconds-before-status-checks: 20

# A status cycle in which every attempt fails makes the plugin forget its jobs, and wait for ever: a controller that
# restarts must not use the attempts up.
slurm-status-attempts: 40

# A job that lost its node is started again by Slurm. Not together with `retries`: a job would be submitted twice.
slurm-requeue: true
retries: 0

# For all jobs of the plugin; `runtime` is minutes. A limit is always given: a partition's default may be minutes.
default-resources:
  runtime: {default_minutes}
  mem_mb: {default_mb}

# Merges of the tokenizer and encoding use every thread; copying and scoring use a few.
set-threads:
  tokenize: {tokenize_threads}
  convert: {convert_threads}
  evaluate: {evaluate_threads}

# Partition, account, QOS, constraint and the GPU of evaluate come from cluster.yaml. What is written here wins:
#   evaluate: {{slurm_partition: short, gres: gpu:1}}
set-resources:
  # Documents stream through; the trained vocabulary's counts need memory.
  tokenize:
    runtime: {tokenize_minutes}
    mem_mb: {tokenize_mb}
  # The whole model in 32-bit on the CPU, for the parity check: 4 bytes a parameter, and as much again.
  convert:
    runtime: {convert_minutes}
    mem_mb: {convert_mb}
  # The exported model, on one GPU where the partition has them.
  evaluate:
    runtime: {evaluate_minutes}
    mem_mb: {evaluate_mb}

# Progress and failures are printed by the stages; the commands are in the rules.
quiet:
  - host
  - reason
"""

_REASONS = {
    "squeue": (
        "Works with accounting and without; sacct without accounting fails silently. squeue knows an ended job for",
        "MinJobAge (300 s by default), which must exceed the 180 s between two looks; `neox-train doctor` checks it.",
    ),
    "sacct": (
        "The accounting answers here, and squeue forgets an ended job (MinJobAge) before the plugin looks again,",
        "which it does every 180 s.",
    ),
}


_WISHES = {"default": (1, 60, 4_000), "tokenize": (8, 240, 32_000), "convert": (4, 120, 64_000)}
_WISHES |= {"evaluate": (8, 240, 64_000)}


@dataclass(frozen=True)
class StageLimits:
    """The most that a job of one node may ask for; memory in MB (10^6 bytes), as Snakemake counts."""

    cores: int | None = None
    minutes: int | None = None
    memory_mb: int | None = None


def render_snakemake_profile(status_command: str, limits: StageLimits | None = None) -> str:
    """Text of config.yaml; ``status_command`` is squeue or sacct, whichever tells ended jobs on the cluster."""
    most = limits or StageLimits()
    values = {}
    for stage, (threads, minutes, memory_mb) in _WISHES.items():
        values[f"{stage}_threads"] = min(threads, most.cores or threads)
        values[f"{stage}_minutes"] = min(minutes, most.minutes or minutes)
        values[f"{stage}_mb"] = min(memory_mb, most.memory_mb or memory_mb)
    reason = "\n# ".join(_REASONS[status_command])
    return _TEXT.format(status_command=status_command, status_reason=reason, **values)
