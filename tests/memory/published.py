"""Throughput that others published or that was measured on one GPU, and what the model predicts for each row.

Published rows: LLM-Foundry's training benchmarks (sequence 2048; parameters, gradients and states sharded, as ZeRO
stage 3; eight GPUs and, here assumed, eight adapters of 200 Gbit/s a node) and torchtitan's Llama 3.1 8B with
torch.compile (sequence 8192). Batches that the sources do not give are assumed. H200 rows, one
GPU: a compiled model with fp32 master weights in a hand-written loop, and `neox-train train`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from neox_train.config.architecture import Architecture
from neox_train.config.cluster import load_cluster
from neox_train.memory.plan import RankPlan
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step
from tests.memory.plans import make_plan

PROFILES = Path(__file__).parents[2] / "cluster_profiles"
_NODE_NETWORK_GB_PER_SECOND = 200
_A100_40GB = 1555
_SHAPES = {
    "125M": (12, 768, 12),
    "350M": (24, 1024, 16),
    "760M": (24, 1536, 12),
    "1.3B": (24, 2048, 16),
    "3B": (32, 2560, 20),
    "7B": (32, 4096, 32),
}


@dataclass(frozen=True)
class Row:
    """One run: profile, model, GPUs, micro-batch, measured tokens/s/GPU, and whether a constant was fitted to it."""

    profile: str
    model: str
    gpus: int
    micro_batch: int
    measured: int
    is_fitted: bool = False
    is_own: bool = False
    """Whether `neox-train train` was measured (docs/performance.md)."""
    is_recomputed: bool = False
    memory_gb_per_second: float | None = None
    """Of a card whose memory is slower than the profile's."""

    @property
    def predicted(self) -> float:
        """Predicted tokens/s/GPU."""
        cluster = load_cluster(PROFILES / self.profile / "cluster.yaml")
        network = cluster.network.model_copy(update={"gb_per_second": _NODE_NETWORK_GB_PER_SECOND})
        cluster = cluster.model_copy(update={"processes_per_node": 8, "network": network})
        if self.memory_gb_per_second is not None:
            assert cluster.gpu is not None
            slower = cluster.gpu.model_copy(update={"memory_gb_per_second": self.memory_gb_per_second})
            cluster = cluster.model_copy(update={"gpu": slower})
        rates = read_rates(cluster, "bfloat16")
        assert rates is not None
        step = predict_step([self.plan], rates)
        assert step is not None
        return step.tokens_per_second_per_gpu

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive is too fast."""
        return self.predicted / self.measured - 1

    @property
    def plan(self) -> RankPlan:
        """One rank of the run."""
        return make_gpu_plan(
            make_architecture(self.model),
            micro_batch=self.micro_batch,
            replicas=self.gpus,
            zero_stage=3,
            checkpoint_layers=int(self.is_recomputed),
        )


def make_architecture(model: str) -> Architecture:
    """The architecture of a row's model."""
    is_llama = model == "Llama 3.1 8B"
    layers, hidden, heads = (32, 4096, 32) if is_llama else _SHAPES[model]
    length, vocabulary = (8192, 128_256) if is_llama else (2048, 50_304)
    return Architecture(
        num_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=8 if is_llama else heads,
        ffn_width=14_336 if is_llama else 4 * hidden,
        seq_length=length,
        max_position_embeddings=length,
        vocab_size=vocabulary,
        padded_vocab_size=vocabulary,
        residual="serial",
        tied_embeddings=False,
        norm="rmsnorm" if is_llama else "layernorm",
        norm_epsilon=1e-5,
        activation="swiglu" if is_llama else "gelu",
        pos_emb="rotary",
        rotary_pct=1.0,
        rotary_emb_base=10_000,
        attention_bias=not is_llama,
        mlp_bias=not is_llama,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        attention_layers=("global",) * layers,
        init_method="normal",
        output_layer_init_method="normal",
        init_method_std=0.02,
    )


def make_gpu_plan(
    architecture: Architecture,
    *,
    micro_batch: int = 1,
    accumulation_steps: int = 1,
    replicas: int = 1,
    zero_stage: int = 1,
    tensor_parallel: int = 1,
    checkpoint_layers: int = 0,
) -> RankPlan:
    """A rank of a bf16 training with Adam on GPUs, collectives overlapped."""
    return replace(
        make_plan(world_size=1, precision="bfloat16", zero_optimization={"stage": 1}),
        architecture=architecture,
        device="cuda",
        micro_batch=micro_batch,
        accumulation_steps=accumulation_steps,
        data_parallel_size=replicas,
        tensor_parallel_size=tensor_parallel,
        zero_stage=zero_stage,
        reduce_bucket_elements=500_000_000,
        overlap_comm=True,
        accumulation_bytes=4,
        communication_bytes=2,
        checkpoint_layers=checkpoint_layers,
    )


ROWS = (
    Row("h200", "1.3B", 1, 8, 59_800, is_fitted=True),
    Row("h200", "125M", 1, 16, 472_000),
    Row("h200", "1.3B", 1, 8, 61_752, is_own=True),
    Row("h200", "125M", 1, 16, 466_267, is_own=True),
    Row("a100", "125M", 8, 32, 142_830),
    Row("a100", "350M", 8, 16, 58_782),
    Row("a100", "760M", 8, 16, 32_434),
    Row("a100", "1.3B", 8, 16, 20_513),
    Row("a100", "3B", 8, 10, 10_811),
    Row("a100", "7B", 8, 8, 4_641),
    Row("a100", "125M", 8, 16, 136_334, memory_gb_per_second=_A100_40GB),
    Row("a100", "125M", 64, 16, 125_234, memory_gb_per_second=_A100_40GB),
    Row("a100", "350M", 8, 16, 55_995, memory_gb_per_second=_A100_40GB),
    Row("a100", "350M", 64, 16, 52_689, memory_gb_per_second=_A100_40GB),
    Row("a100", "1.3B", 8, 8, 19_271, memory_gb_per_second=_A100_40GB),
    Row("a100", "1.3B", 64, 8, 19_001, memory_gb_per_second=_A100_40GB),
    Row("a100", "7B", 8, 8, 3_679, is_recomputed=True, memory_gb_per_second=_A100_40GB),
    Row("a100", "7B", 64, 8, 3_665, is_recomputed=True, memory_gb_per_second=_A100_40GB),
    Row("h100", "760M", 8, 16, 63_147),
    Row("h100", "1.3B", 8, 8, 45_455),
    Row("h100", "1.3B", 64, 8, 44_402),
    Row("h100", "1.3B", 512, 8, 39_837, is_fitted=True),
    Row("h100", "3B", 16, 8, 24_142),
    Row("h100", "3B", 64, 8, 22_525),
    Row("h100", "7B", 8, 6, 10_643, is_fitted=True),
    Row("h100", "7B", 128, 6, 10_475),
    Row("h100", "7B", 512, 6, 9_670),
    Row("h100", "Llama 3.1 8B", 8, 1, 6_667),
    Row("h100", "Llama 3.1 8B", 128, 1, 6_514),
)


def write_table() -> list[str]:
    """The rows as lines of a Markdown table."""
    lines = [
        "| card | model | GPUs | micro-batch | measured | predicted | error | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        notes = ["a constant is fitted to it"] if row.is_fitted else []
        notes += ["`neox-train train`"] if row.is_own else []
        notes += ["40 GB card"] if row.memory_gb_per_second else []
        notes += ["activations recomputed"] if row.is_recomputed else []
        note = ", ".join(notes)
        lines.append(
            f"| {row.profile.upper()} | {row.model} | {row.gpus} | {row.micro_batch} | {row.measured:,} "
            f"| {row.predicted:,.0f} | {row.error:+.1%} | {note} |"
        )
    return lines
