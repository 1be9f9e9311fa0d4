"""The rates that predictions count with: the cluster file's, and stated constants where it is silent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from neox_train.config.cluster import Cluster
from neox_train.config.precision import Precision

_GB = 1e9
_MATRIX_FRACTION = 0.783
"""775 of 989.4 TFLOP/s: matrix products of a 1.3B model on one H200."""
_ATTENTION_FRACTION = 0.5
"""Causal attention of the same model: 9.9 TFLOP in about 20 ms."""
_BANDWIDTH_FRACTION = 0.896
"""4.3 of the H200's 4.8 TB/s, reached by an optimizer step."""
_LAYER_PASSES = 178.0
"""Of compiled layers and Transformer Engine's: fitted to one row, 1.3B in bf16 on one H200, 61.3k tokens/s."""
_EAGER_LAYER_PASSES = 200.0
"""Of layers that are not compiled: an assumption that others' benchmarks on A100 agree with (docs/planning.md)."""
_LINK_FRACTION = 0.75
_LATENCY_SECONDS = 10e-6
_OVERLAP_FRACTION = 0.8
_SCALE_LOSS = 0.012
"""Fitted to one published row, 1.3B on 512 H100. Link fraction, latency and overlap are assumptions: nothing of this
project was measured between GPUs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareRates:
    """What one GPU reaches: FLOP/s of matrix products and attention, bytes a second of its memory and its links."""

    peak_flops: float
    matrix_flops: float
    fp8_flops: float | None
    """Of matrix products in FP8; None where the cluster file names no such peak."""
    attention_flops: float
    memory_bytes: float
    layer_passes: float
    eager_layer_passes: float
    link_bytes: float
    """One direction, inside a node."""
    network_bytes: float | None
    """One direction of a whole node; None where the cluster file does not say."""
    latency_seconds: float
    overlap_fraction: float
    scale_loss: float
    processes_per_node: int
    calibrated: bool
    """Whether the rates were measured with this project on this hardware."""

    def with_matrix_fraction(self, fraction: float) -> HardwareRates:
        """The rates with another share of the peak in matrix products, of FP8's peak too."""
        flops = fraction * self.peak_flops
        narrow = self.fp8_flops * flops / self.matrix_flops if self.fp8_flops else None
        return replace(self, matrix_flops=flops, fp8_flops=narrow)


def read_rates(cluster: Cluster, precision: Precision) -> HardwareRates | None:
    """The rates of a GPU cluster; None without GPUs, or where peak or memory bandwidth is not in the cluster file."""
    gpu, rates = cluster.gpu, cluster.rates
    if cluster.device != "cuda" or gpu is None or gpu.memory_gb_per_second is None:
        return None
    peak = getattr(gpu.peak_tflops, precision)
    if peak is None:
        return None
    fraction = _or(rates.link_fraction, _LINK_FRACTION)
    matrix_fraction = _or(rates.matrix_fraction, _MATRIX_FRACTION)
    narrow = gpu.peak_tflops.fp8
    links = gpu.links.gb_per_second if gpu.links else None
    # The file counts both directions of a GPU's links; without links a PCIe 4 slot is assumed.
    link = (links / 2 if links else 25) * _GB * fraction
    network = cluster.network.gb_per_second
    return HardwareRates(
        peak_flops=peak * 1e12,
        matrix_flops=peak * 1e12 * matrix_fraction,
        # The same share of a higher peak; casts are counted apart.
        fp8_flops=narrow * 1e12 * matrix_fraction if narrow else None,
        attention_flops=peak * 1e12 * _or(rates.attention_fraction, _ATTENTION_FRACTION),
        memory_bytes=gpu.memory_gb_per_second * _GB * _or(rates.bandwidth_fraction, _BANDWIDTH_FRACTION),
        layer_passes=_or(rates.layer_passes, _LAYER_PASSES),
        eager_layer_passes=_EAGER_LAYER_PASSES,
        link_bytes=link,
        network_bytes=network * _GB * fraction if network else None,
        latency_seconds=_or(rates.latency_seconds, _LATENCY_SECONDS),
        overlap_fraction=_or(rates.overlap_fraction, _OVERLAP_FRACTION),
        scale_loss=_or(rates.scale_loss, _SCALE_LOSS),
        processes_per_node=cluster.processes_per_node,
        calibrated=rates.measured and rates.matrix_fraction is not None,
    )


def _or(value: float | None, fallback: float) -> float:
    return fallback if value is None else value
