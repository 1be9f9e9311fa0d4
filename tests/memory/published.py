"""Throughput that others published or that was measured on one GPU, and what the model predicts for each row.

Published rows: LLM-Foundry's training benchmarks (sequence 2048; parameters, gradients and states sharded, as ZeRO
stage 3; eight GPUs and 200 GB/s a node, as it says for its A100; the H100's network is assumed to be the same) and
torchtitan's Llama 3.1 8B with torch.compile (sequence 8192, 400 Gbit/s a GPU). Micro-batches, accumulation and
recomputation are the sources' own. H200 rows, one GPU: `neox-train train` with the configurations of
benchmarks/train_step.py (docs/performance.md).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from benchmarks.own_row import describe_row
from benchmarks.rows import SIZES, find_row
from neox_train.config.architecture import Architecture
from neox_train.config.cluster import Cluster, load_cluster
from neox_train.config.run import resolve_files
from neox_train.memory.plan import RankPlan, plan_stages
from neox_train.memory.throughput.compute import predict_products
from neox_train.memory.throughput.rates import read_rates
from neox_train.memory.throughput.step import predict_step
from tests.memory.plans import make_plan

PROFILES = Path(__file__).parents[2] / "cluster_profiles"
_A100_40GB = 1555
_SHAPES = {
    "125M": (12, 768, 12),
    "350M": (24, 1024, 16),
    "760M": (24, 1536, 12),
    "1.3B": (24, 2048, 16),
    "3B": (32, 2560, 20),
    "7B": (32, 4096, 32),
}
_LLAMA = "Llama 3.1 8B"
_LLAMA_RECOMPUTED = 0.365
"""Torchtitan keeps the results of attention and of every second product: recomputed are wk, wo and w3, of 218M weights
of a layer 80M."""


@dataclass(frozen=True)
class Row:
    """One run of others: profile, model, GPUs, micro-batch, accumulation, measured tokens/s/GPU."""

    profile: str
    model: str
    gpus: int
    micro_batch: int
    accumulation_steps: int
    measured: int
    is_fitted: bool = False
    """Whether a constant was fitted to it."""
    is_recomputed: bool = False
    is_fp8: bool = False
    memory_gb_per_second: float | None = None
    """Of a card whose memory is slower than the profile's."""
    node_gb_per_second: float = 200

    @cached_property
    def predicted(self) -> float:
        """Predicted tokens/s/GPU."""
        rates = read_rates(self._cluster, "bfloat16")
        assert rates is not None
        if self.profile == "h200":
            # That profile's share of the peak is this project's own; these trainers' is the H100's, the same chip.
            others = load_cluster(PROFILES / "h100" / "cluster.yaml").rates.matrix_fraction
            assert others is not None
            rates = rates.with_matrix_fraction(others)
        step = predict_step([self.plan], rates)
        assert step is not None
        again = 0.0
        if self.model == _LLAMA:
            again = _LLAMA_RECOMPUTED * predict_products(self.plan, rates) * self.accumulation_steps
        return step.tokens / (step.total + again) / step.gpus

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive is too fast."""
        return self.predicted / self.measured - 1

    @property
    def plan(self) -> RankPlan:
        """One rank of the run."""
        plan = make_gpu_plan(
            make_architecture(self.model),
            micro_batch=self.micro_batch,
            accumulation_steps=self.accumulation_steps,
            replicas=self.gpus,
            zero_stage=3,
            checkpoint_layers=int(self.is_recomputed),
        )
        is_llama = self.model == _LLAMA
        # Sharded states are updated as flat ones: others' trainings have no wrapper of DeepSpeed's.
        plan = replace(plan, compiled_blocks=is_llama, keeps_products=is_llama, flat_masters=True)
        if self.is_fp8:
            plan = replace(plan, te_attention=True, te_mlp=True, fp8="current" if is_llama else "delayed")
        return plan

    @property
    def _cluster(self) -> Cluster:
        cluster = load_cluster(PROFILES / self.profile / "cluster.yaml")
        network = cluster.network.model_copy(update={"gb_per_second": self.node_gb_per_second})
        cluster = cluster.model_copy(update={"processes_per_node": 8, "network": network})
        if self.memory_gb_per_second is None:
            return cluster
        assert cluster.gpu is not None
        slower = cluster.gpu.model_copy(update={"memory_gb_per_second": self.memory_gb_per_second})
        return cluster.model_copy(update={"gpu": slower})


@dataclass(frozen=True)
class OwnRow:
    """One row of docs/performance.md: its name in benchmarks/rows.py, the call that measured it, tokens/s."""

    name: str
    call: int
    measured: int
    is_fitted: bool = False

    @cached_property
    def predicted(self) -> float:
        """Predicted tokens/s, from the very configuration that ran."""
        cluster = load_cluster(PROFILES / "h200" / "cluster.yaml")
        row = find_row(self.name)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "row.yml"
            # JSON is YAML.
            file.write_text(json.dumps(describe_row(row, Path(folder) / "store")))
            config = resolve_files([file], cluster).with_vocab_size(SIZES[row.size].vocab_size)
        plans = plan_stages(config, cluster)
        rates = read_rates(cluster, plans[0].precision)
        assert rates is not None
        step = predict_step(plans, rates)
        assert step is not None
        return step.tokens_per_second_per_gpu

    @property
    def error(self) -> float:
        """Relative error of the prediction; positive is too fast."""
        return self.predicted / self.measured - 1


def make_architecture(model: str) -> Architecture:
    """The architecture of a row's model."""
    is_llama = model == _LLAMA
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


OWN_ROWS = (
    OwnRow("1-3B/bf16", 6, 63_186),
    OwnRow("1-3B/fp8-delayed", 6, 82_709),
    OwnRow("125M/bf16", 6, 465_158),
    OwnRow("410M/bf16", 6, 184_731),
    OwnRow("1-3B/bf16", 7, 60_437),
    OwnRow("1-3B/adam8bit", 7, 54_139),
    OwnRow("1-3B/te", 7, 60_499),
    OwnRow("1-3B/fp16", 7, 51_130, is_fitted=True),
    OwnRow("1-3B/bf16-checkpointing", 7, 46_967),
    OwnRow("125M/bf16", 7, 444_939),
    OwnRow("125M/adam8bit", 7, 425_828),
    OwnRow("1-3B/bf16", 8, 61_341, is_fitted=True),
    OwnRow("1-3B/adam8bit", 8, 55_779, is_fitted=True),
    OwnRow("1-3B/bf16", 9, 61_841),
    OwnRow("1-3B/fp8-delayed", 9, 77_969),
    OwnRow("1-3B/bf16", 10, 62_051),
    OwnRow("1-3B/adam8bit", 10, 56_273),
    OwnRow("2-7B/bf16", 10, 25_711),
    OwnRow("2-7B/bf16", 12, 28_596),
    OwnRow("2-7B/fp8-delayed", 10, 36_193),
    OwnRow("6-7B/bf16-checkpointing", 10, 10_375),
)

ROWS = (
    Row("a100", "125M", 8, 40, 2, 142_830),
    Row("a100", "350M", 8, 32, 2, 58_782),
    Row("a100", "760M", 8, 24, 2, 32_434),
    Row("a100", "1.3B", 8, 14, 4, 20_513),
    Row("a100", "3B", 8, 10, 2, 10_811),
    Row("a100", "7B", 8, 6, 2, 4_641),
    Row("a100", "125M", 8, 26, 3, 136_334, memory_gb_per_second=_A100_40GB),
    Row("a100", "125M", 64, 26, 1, 125_234, memory_gb_per_second=_A100_40GB),
    Row("a100", "350M", 8, 16, 4, 55_995, memory_gb_per_second=_A100_40GB),
    Row("a100", "350M", 64, 18, 1, 52_689, memory_gb_per_second=_A100_40GB),
    Row("a100", "1.3B", 8, 8, 8, 19_271, memory_gb_per_second=_A100_40GB),
    Row("a100", "1.3B", 64, 10, 1, 19_001, memory_gb_per_second=_A100_40GB),
    Row("a100", "7B", 8, 12, 4, 3_679, is_recomputed=True, memory_gb_per_second=_A100_40GB),
    Row("a100", "7B", 64, 18, 1, 3_665, is_recomputed=True, memory_gb_per_second=_A100_40GB),
    Row("h100", "760M", 8, 24, 2, 63_147),
    Row("h100", "1.3B", 8, 14, 1, 45_455),
    Row("h100", "1.3B", 64, 20, 1, 44_402),
    Row("h100", "1.3B", 512, 20, 1, 39_837, is_fitted=True),
    Row("h100", "3B", 16, 10, 3, 24_142),
    Row("h100", "3B", 64, 6, 3, 22_525),
    Row("h100", "7B", 8, 6, 1, 10_643, is_fitted=True),
    Row("h100", "7B", 128, 6, 1, 10_475),
    Row("h100", "7B", 512, 6, 1, 9_670),
    Row("h100", "3B", 8, 10, 6, 30_586, is_fp8=True),
    Row("h100", _LLAMA, 8, 2, 1, 6_667, is_recomputed=True, memory_gb_per_second=2400, node_gb_per_second=400),
    Row("h100", _LLAMA, 128, 2, 1, 6_514, is_recomputed=True, memory_gb_per_second=2400, node_gb_per_second=400),
    Row(
        "h100",
        _LLAMA,
        8,
        2,
        1,
        8_532,
        is_recomputed=True,
        is_fp8=True,
        memory_gb_per_second=2400,
        node_gb_per_second=400,
    ),
    Row(
        "h100",
        _LLAMA,
        128,
        2,
        1,
        8_380,
        is_recomputed=True,
        is_fp8=True,
        memory_gb_per_second=2400,
        node_gb_per_second=400,
    ),
    Row("h200", _LLAMA, 32, 2, 1, 10_938, is_recomputed=True, is_fp8=True, node_gb_per_second=400),
    Row("h200", _LLAMA, 64, 2, 1, 10_753, is_recomputed=True, is_fp8=True, node_gb_per_second=400),
)


def write_own_table() -> list[str]:
    """The project's own rows as lines of a Markdown table."""
    lines = ["| row | call | measured | predicted | error | |", "|---|---|---|---|---|---|"]
    for row in OWN_ROWS:
        note = "a constant is fitted to it" if row.is_fitted else ""
        lines.append(
            f"| {row.name} | {row.call} | {row.measured:,} | {row.predicted:,.0f} | {row.error:+.1%} | {note} |"
        )
    return lines


def write_table() -> list[str]:
    """The published rows as lines of a Markdown table."""
    lines = [
        "| card | model | GPUs | micro-batch x accumulation | measured | predicted | error | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        notes = ["a constant is fitted to it"] if row.is_fitted else []
        notes += ["FP8"] if row.is_fp8 else []
        notes += ["40 GB card"] if row.memory_gb_per_second == _A100_40GB else []
        notes += ["500 W, 2.4 TB/s"] if row.memory_gb_per_second == 2400 else []
        if row.is_recomputed:
            notes.append("37% of the products recomputed" if row.model == _LLAMA else "activations recomputed")
        note = ", ".join(notes)
        lines.append(
            f"| {row.profile.upper()} | {row.model} | {row.gpus} | {row.micro_batch} x {row.accumulation_steps} "
            f"| {row.measured:,} | {row.predicted:,.0f} | {row.error:+.1%} | {note} |"
        )
    return lines
