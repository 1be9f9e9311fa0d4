"""The blocks of a cluster file: GPU, links, network, CPU stages, preflight, rates.

A number that says what hardware does carries where it comes from (``source``) and whether it was measured on that
hardware with this project (``measured``); predictions from numbers that were not measured are marked uncalibrated.
"""

from __future__ import annotations

from pydantic import Field

from neox_train.config.records import Record


class Figures(Record):
    """Numbers with their origin."""

    source: str | None = Field(None, description="Where the numbers come from.")
    measured: bool = Field(False, description="Whether they were measured on this hardware.")


class PeakTflops(Figures):
    """Dense peak of one GPU, in TFLOP/s, by number format."""

    bfloat16: float | None = Field(None, gt=0)
    fp16: float | None = Field(None, gt=0)
    fp32: float | None = Field(None, gt=0)
    fp8: float | None = Field(None, gt=0)


class Links(Figures):
    """How the GPUs of one node reach each other."""

    kind: str = Field(description="NVLink with its generation, or PCIe.")
    gb_per_second: float | None = Field(None, gt=0, description="Of one GPU, both directions together, in GB/s.")


class Gpu(Figures):
    """One kind of GPU."""

    type: str = Field(description="Name Slurm knows it by, or any name on a machine without Slurm.")
    model: str | None = Field(None, description="Part of the name that the driver reports; compared on the node.")
    memory_gib: float = Field(gt=0, description="Memory of one GPU, in GiB, as the driver reports it to torch.")
    compute_capability: float = Field(gt=0, description="8.0 is A100, 8.9 is L40S, 9.0 is H100 and H200.")
    peak_tflops: PeakTflops = Field(default_factory=PeakTflops)
    memory_gb_per_second: float | None = Field(None, gt=0, description="Peak bandwidth of its memory, in GB/s.")
    watts: float | None = Field(None, gt=0, description="Power limit of one GPU; energy is predicted with it.")
    links: Links | None = None


class Network(Figures):
    """How nodes reach each other; what is left out is chosen by NCCL itself."""

    kind: str | None = Field(None, description="For people: InfiniBand HDR, Slingshot, RoCE.")
    gb_per_second: float | None = Field(None, gt=0, description="Of one node, one direction, in GB/s.")
    interface: str | None = Field(None, description="Network interface for NCCL's and gloo's sockets, by exact name.")
    adapters: str | None = Field(None, description="InfiniBand adapters for NCCL, by exact name, separated by commas.")


class CpuStages(Record):
    """Where tokenize and convert run; what is left out is as for the training."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None


class Preflight(Figures):
    """Floors that a node must pass before a training starts on it."""

    all_reduce_gb_per_second: float | None = Field(
        None, gt=0, description="Bus bandwidth of an all-reduce over all ranks of the job, in GB/s."
    )
    free_scratch_gib: float = Field(1, ge=0, description="Free space of the node-local scratch folder, in GiB.")


class Rates(Figures):
    """What trainings reached on this hardware; empty until something was measured."""

    mfu: float | None = Field(None, gt=0, le=1, description="Share of the dense peak that a tuned training reaches.")
    all_reduce_gb_per_second: float | None = Field(None, gt=0)
    checkpoint_write_gb_per_second: float | None = Field(None, gt=0)
    matrix_fraction: float | None = Field(None, gt=0, le=1, description="Of the peak, in large matrix products.")
    attention_fraction: float | None = Field(None, gt=0, le=1, description="Of the peak, in causal attention.")
    bandwidth_fraction: float | None = Field(None, gt=0, le=1, description="Of the GPU memory's peak bandwidth.")
    layer_passes: float | None = Field(
        None, gt=0, description="Reads and writes of a hidden-sized tensor by a layer's other kernels, both passes."
    )
    link_fraction: float | None = Field(None, gt=0, le=1, description="Of gpu.links and network, in collectives.")
    latency_seconds: float | None = Field(None, ge=0, description="Of one step of a collective.")
    overlap_fraction: float | None = Field(
        None, ge=0, le=1, description="Of data-parallel collectives, that computing can hide."
    )
    scale_loss: float | None = Field(
        None, ge=0, lt=1, description="Of a step, lost with each doubling of the nodes: stragglers, a shared network."
    )


class Gate(Record):
    """Fractions of a GPU's memory at which the estimate warns and refuses."""

    refuse_above: float = Field(0.95, gt=0)
    warn_above: float = Field(0.88, gt=0)
