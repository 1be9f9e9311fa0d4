"""Keys of the processes: parallel layout, seed, launcher."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused

PARTITION_PATTERN = "^(uniform|parameters|type:.*transformer.*)$"


class ParallelKeys(BaseModel):
    """How the model and the work are cut over processes."""

    pipe_parallel_size: int = implemented(0, "Pipeline stages; 0 and 1 both mean no pipeline.", ge=0)
    model_parallel_size: int = implemented(1, "Tensor-parallel degree; 0 means 1.", ge=0)
    sequence_parallel: bool = implemented(
        False, "Cut the sequence over tensor-parallel ranks between matrix products (less activation memory)."
    )
    pipe_partition_method: str = implemented(
        "type:transformer|mlp",
        "What pipeline stages have evenly: transformer layers (type:transformer), links of the chain (uniform) or "
        "parameters (parameters).",
        pattern=PARTITION_PATTERN,
    )
    is_pipe_parallel: bool = harmless(False, "Computed from pipe_parallel_size.")
    world_size: int | None = implemented(None, "Number of training processes; comes from the launcher.", ge=1)
    global_num_gpus: int | None = implemented(None, "Number of processes to assume where no launcher says it.", ge=1)
    distributed_backend: Literal["nccl", "gloo"] = implemented(
        "nccl", "Communication library: nccl for GPUs, gloo for CPUs; the cluster's device decides."
    )
    seed: int = implemented(1234, "Seed of initial values, data order and dropout.", gt=0, lt=2**32)
    deterministic: bool = implemented(
        False, "New here: only deterministic GPU kernels, so that two runs agree bit for bit (slower)."
    )
    local_rank: int | None = harmless(None, "Set by the launcher.")
    rank: int | None = harmless(None, "Set by the launcher.")
    lazy_mpu_init: bool = harmless(False, "Late set-up of process groups.")
    use_cpu_initialization: bool = harmless(
        False, "Initial values are always drawn on the CPU, the same for any layout."
    )


class LaunchKeys(BaseModel):
    """Launcher details: the cluster profile decides them here."""

    launcher: Literal["pdsh", "openmpi", "mvapich", "slurm"] = harmless(
        "pdsh", "Launcher; submitit starts every rank here."
    )
    deepspeed_slurm: bool = harmless(False, "Take ranks from Slurm; always so on a Slurm profile.")
    deepspeed_mpi: bool = harmless(False, "Take ranks from MPI.")
    hostfile: str | None = harmless(None, "List of hosts; the cluster profile decides nodes here.")
    include: str | None = harmless(None, "Hosts to use.")
    exclude: str | None = harmless(None, "Hosts to leave out.")
    num_nodes: int = harmless(-1, "Number of nodes; the run's `nodes` in the pipeline file decides.")
    num_gpus: int | None = harmless(None, "GPUs a node; the cluster file decides.")
    master_addr: str | None = harmless(None, "Rendezvous address; set by the launcher.")
    master_port: int = harmless(29500, "Rendezvous port; set by the launcher.")
    force_multi: bool = harmless(False, "Use the multi-node launcher on one node.")
    no_ssh_check: bool = harmless(False, "Skip the launcher's ssh check; no ssh is used here.")
    comment: str | None = harmless(None, "Comment of the Slurm job; set slurm_extra in the cluster file.")
    account: str | None = harmless(None, "Slurm account; set it in the cluster file.")
    autotuning_run: str | None = harmless(None, "DeepSpeed autotuner's mode.")
    user_script: str | None = harmless(None, "Script the launcher starts.")
    config_files: dict[str, str] | None = harmless(None, "Raw texts of the configuration files.")
    iteration: int | None = refused(
        None,
        "Checkpoint step to load.",
        remedy="remove it and move newer checkpoints away: the newest complete one is loaded",
    )
    do_train: bool | None = harmless(None, "Computed from the data.")
    do_valid: bool | None = harmless(None, "Computed from the data.")
    do_test: bool | None = harmless(None, "Computed from the data.")
