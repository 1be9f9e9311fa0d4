"""The files of a created profile: cluster.yaml, each value with its reason, and Snakemake's config.yaml beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from neox_train.cluster.profile_create import ProfileFacts
from neox_train.cluster.snakemake_profile import render_snakemake_profile
from neox_train.config.cluster import load_cluster
from neox_train.errors import ConfigError
from neox_train.files import write_text

_ENVIRONMENT = {
    "NCCL_DEBUG": "WARN",
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "1800",
    "HDF5_USE_FILE_LOCKING": "FALSE",
}


def write_profile(facts: ProfileFacts, root: Path, *, force: bool = False) -> list[Path]:
    """Write ``root``/NAME/{cluster.yaml,config.yaml} and read them back; an existing profile is kept unless forced."""
    folder = root / facts.name
    files = {
        folder / "cluster.yaml": render_cluster_file(facts),
        folder / "config.yaml": render_snakemake_profile(facts.status_command, facts.stage_limits),
    }
    for path in files:
        if path.exists() and not force:
            raise ConfigError(f"{path} exists; choose another name, or give --force to replace it")
    for path, text in files.items():
        write_text(path, text)
    load_cluster(folder / "cluster.yaml")
    return list(files)


def render_cluster_file(facts: ProfileFacts) -> str:
    """Text of cluster.yaml."""
    head = (
        f"# Facts of partition {facts.partition}, asked of Slurm {facts.slurm_version} and of a person by\n"
        f"# `neox-train profile create {facts.name}`. cluster_profiles/h100/cluster.yaml explains every key;\n"
        f"# `neox-train doctor --profile cluster_profiles/{facts.name}` compares this file with the cluster.\n\n"
    )
    return head + "\n".join(_block(comment, values) for comment, values in _blocks(facts))


def _blocks(facts: ProfileFacts) -> list[tuple[str, dict[str, Any]]]:
    scratch = facts.node_local_scratch
    environment = {
        **_ENVIRONMENT,
        "TRITON_CACHE_DIR": f"{scratch}/neox-train-$USER/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/neox-train-$USER/inductor",
    }
    return [
        ("", {"name": facts.name, "source": f"sinfo and scontrol of {facts.partition}", "measured": False}),
        ("Trainings are Slurm jobs, sent by submitit.", {"executor": "slurm", "device": "cuda"}),
        ("One process a GPU.", {"processes_per_node": facts.processes_per_node}),
        ("The node's cores divided by its GPUs.", {"cpus_per_process": facts.cpus_per_process}),
        (
            "From the datasheet, dense. Compare with a node: `neox-train doctor` does.",
            {"gpu": facts.gpu.model_dump(mode="json", exclude_none=True)},
        ),
        (
            "Left to NCCL where nothing is written; interface and adapters go by exact name.",
            {"network": {"interface": facts.interface or None}},
        ),
        ("Where everything is written: a 7B checkpoint is about 100 GB.", {"results": facts.results}),
        ("The node's own disk, for compiled kernels.", {"node_local_scratch": scratch}),
        ("With false, Hugging Face libraries use what is on disk and do not wait.", {"internet": facts.internet}),
        ("The queue.", {"partition": facts.partition, "constraint": facts.constraint or None}),
        (
            "Not in a file: --config account=NAME, or NEOX_TRAIN_ACCOUNT and NEOX_TRAIN_MAIL_USER in the environment.",
            {"account": None, "mail_user": None, "mail_type": "END,FAIL,REQUEUE"},
        ),
        (
            "0 is all memory of the node; less where some of its GPUs are left to others.",
            {"memory_per_node": facts.memory_per_node},
        ),
        (
            "How GPUs are requested; a type only where the partition mixes them.",
            {"gres_style": facts.gres_style, "gres_type": facts.gres_type or None},
        ),
        (
            "Where tokenize and convert run; null is as the training.",
            {"cpu_stages": {"partition": facts.cpu_partition or None}},
        ),
        ("Whether sacct and sacctmgr answered.", {"accounting": facts.accounting}),
        ("What the partition does with a job that another displaces.", {"preempt_mode": facts.preempt_mode}),
        (
            "The wall; a job that reaches it saves, requeues itself and goes on.",
            {"time_limit_minutes": facts.time_limit_minutes},
        ),
        (
            "Before the wall the ranks are told to save: longer than the slowest save, plus a minute.",
            {"signal_lead_seconds": min(300, facts.time_limit_minutes * 15)},
        ),
        (
            "Quiet NCCL; the flight recorder, and a watchdog that outlasts a save; compiled kernels on the node's own\n"
            "disk; no HDF5 locks, which Lustre may refuse. NCCL_ALGO, NCCL_PROTO and their kin are left alone.",
            {"environment": environment},
        ),
        (
            "Shell lines before the interpreter starts (module load ...), and the interpreter on the nodes.",
            {"setup": list(facts.setup), "python": facts.python or None},
        ),
        (
            "A node below these stops a training at its start; set the bandwidth after a first `neox-train doctor`.",
            {"preflight": {"all_reduce_gb_per_second": None, "free_scratch_gib": 5}},
        ),
    ]


def _block(comment: str, values: dict[str, Any]) -> str:
    lines = "".join(f"# {line}\n" for line in comment.splitlines())
    return lines + yaml.safe_dump(values, sort_keys=False, default_flow_style=False, width=200)
