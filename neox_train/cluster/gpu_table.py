"""GPUs that a profile can be made for, by the names that Slurm sites give them.

Peaks are dense (without sparsity), in TFLOP/s, from the vendors' datasheets; memory is what torch can use, the lower
end of the totals in its out-of-memory messages of public reports. Nothing here was measured with this project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from neox_train.config.cluster_records import Gpu, Links, PeakTflops

_MEMORY_SOURCE = "total capacity in PyTorch's out-of-memory messages of public reports"


@dataclass(frozen=True)
class KnownGpu:
    """One entry: ``words`` are parts of Slurm names and node features; ``size_words`` tell memory variants apart."""

    key: str
    words: tuple[str, ...]
    size_words: tuple[str, ...]
    model: str
    memory_gib: float
    compute_capability: float
    peaks: tuple[float | None, float, float, float | None]
    """bfloat16, fp16, fp32, fp8."""
    links: tuple[str, float]
    datasheet: str

    def build(self, slurm_type: str) -> Gpu:
        """The ``gpu:`` block of a cluster file, under the name that Slurm uses (or this table's)."""
        bfloat16, fp16, fp32, fp8 = self.peaks
        kind, rate = self.links
        return Gpu(
            type=slurm_type or self.key,
            model=self.model,
            memory_gib=self.memory_gib,
            compute_capability=self.compute_capability,
            source=_MEMORY_SOURCE,
            memory_gb_per_second=_MEMORY_GB_PER_SECOND[self.key],
            watts=_WATTS.get(self.key),
            peak_tflops=PeakTflops(bfloat16=bfloat16, fp16=fp16, fp32=fp32, fp8=fp8, source=self.datasheet),
            links=Links(kind=kind, gb_per_second=rate, source=self.datasheet),
        )


_MEMORY_GB_PER_SECOND = {
    "a100-40gb": 1555,
    "a100-80gb": 2039,
    "h100": 3350,
    "h200": 4800,
    "gh200": 4000,
    "l40s": 864,
    "v100-16gb": 900,
    "v100-32gb": 900,
}
"""Peak bandwidth of the memory, from the same datasheets."""
_WATTS = {
    "a100-40gb": 400,
    "a100-80gb": 400,
    "h100": 700,
    "h200": 700,
    "l40s": 350,
    "v100-16gb": 300,
    "v100-32gb": 300,
}
"""Power limit of the board; a GH200's is set by the site."""

_A100 = ("a100", "ampere")
_HOPPER = (989.4, 989.4, 66.9, 1978.9)
_NVLINK3 = ("NVLink 3", 600.0)
_NVLINK4 = ("NVLink 4", 900.0)

KNOWN_GPUS = (
    KnownGpu("a100-40gb", _A100, ("40",), "A100", 39.4, 8.0, (312, 312, 19.5, None), _NVLINK3, "NVIDIA A100 SXM4"),
    KnownGpu("a100-80gb", _A100, ("80",), "A100", 79.1, 8.0, (312, 312, 19.5, None), _NVLINK3, "NVIDIA A100 SXM4"),
    KnownGpu("h100", ("h100", "hopper"), (), "H100", 79.1, 9.0, _HOPPER, _NVLINK4, "NVIDIA H100 SXM5"),
    KnownGpu("h200", ("h200",), (), "H200", 139.7, 9.0, _HOPPER, _NVLINK4, "NVIDIA H200 SXM"),
    KnownGpu("gh200", ("gh200",), (), "GH200", 94.5, 9.0, _HOPPER, _NVLINK4, "NVIDIA GH200, HBM3 96 GB"),
    KnownGpu("l40s", ("l40s",), (), "L40S", 44.3, 8.9, (362.0, 362.0, 91.6, 733.0), ("PCIe 4", 64.0), "NVIDIA L40S"),
    KnownGpu("v100-16gb", ("v100", "volta"), ("16",), "V100", 15.7, 7.0, (None, 125, 15.7, None), ("NVLink 2", 300.0),
             "NVIDIA V100 SXM2"),
    KnownGpu("v100-32gb", ("v100", "volta"), ("32",), "V100", 31.7, 7.0, (None, 125, 15.7, None), ("NVLink 2", 300.0),
             "NVIDIA V100 SXM2"),
)  # fmt: skip

_REFUSED = {
    "mi100": "an AMD GPU",
    "mi200": "an AMD GPU",
    "mi210": "an AMD GPU",
    "mi250": "an AMD GPU",
    "mi250x": "an AMD GPU",
    "mi300": "an AMD GPU",
    "mi300a": "an AMD GPU",
    "mi300x": "an AMD GPU",
    "pvc": "an Intel GPU",
    "max1550": "an Intel GPU",
    "k80": "older than tensor cores",
    "p100": "older than tensor cores",
}


def find_gpus(slurm_type: str, features: Iterable[str] = ()) -> list[KnownGpu]:
    """Entries that a Slurm type and the features of its nodes may mean; several where the memory is not told.

    The type decides; features only where Slurm has no type, and to tell memory variants apart.
    """
    words = [slurm_type.lower()] if slurm_type else [feature.lower() for feature in features]
    found = [gpu for gpu in KNOWN_GPUS if any(_names(text, gpu.words) for text in words)]
    hints = [slurm_type.lower(), *(feature.lower() for feature in features)]
    sized = [gpu for gpu in found if any(_has_size(text, gpu) for text in hints)]
    return sized if sized and len({gpu.key for gpu in sized}) < len(found) else found


def find_gpu(key: str) -> KnownGpu | None:
    """The entry with exactly this key."""
    return next((gpu for gpu in KNOWN_GPUS if gpu.key == key.lower()), None)


def refusal(slurm_type: str) -> str | None:
    """Why trainings cannot run on a GPU of this name (``an AMD GPU``); None where nothing is known against it."""
    text = slurm_type.lower()
    return next((reason for word, reason in _REFUSED.items() if _names(text, (word,))), None)


def _names(text: str, words: tuple[str, ...]) -> bool:
    """Whether a word stands in a name on its own: ``h100`` in ``nvidia_h100_80gb``, not in ``gh100``."""
    return any(re.search(rf"(?<![a-z0-9]){word}(?![0-9])", text) for word in words)


def _has_size(text: str, gpu: KnownGpu) -> bool:
    return any(re.search(rf"(?<!\d){size}(?!\d)", text) for size in gpu.size_words)
