"""What other estimators say of the same run, in bytes a GPU: ``python -m benchmarks.memory_rivals`` prints the table.

The rows are the measured ones of docs/memory.md; nothing runs. DeepSpeed's functions are called. The EleutherAI
cookbook's calculator and Megatron-LM's theoretical report are written from their formulas; the second is Table 2 of
arXiv 2205.05198 with 18 bytes a parameter.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.memory_rows import find_rows, vocab_size
from neox_train.config.cluster import load_cluster
from neox_train.config.parameters import list_parameters
from neox_train.config.run import resolve_files
from neox_train.memory.phases import list_phases
from neox_train.memory.plan import RankPlan, plan_rank

TABLE_HEAD = "| row | measured GiB | neox-train | DeepSpeed | EleutherAI cookbook | Megatron-LM |"
_BUCKET_BYTES = 2 * 500_000_000
_LIVE_BYTES = 2 * 1_000_000_000


def list_rivals(plan: RankPlan) -> dict[str, int]:
    """Bytes by estimator, for one rank of a run that is neither tensor- nor pipeline-parallel."""
    return {"deepspeed": ask_deepspeed(plan), "cookbook": count_cookbook(plan), "megatron": count_megatron(plan)}


def ask_deepspeed(plan: RankPlan) -> int:
    """Model states by DeepSpeed's own functions: stage 3's for stage 3, stage 2's elsewhere; no activations."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    sizes = [parameter.count for parameter in list_parameters(plan.architecture)]
    ranks = {"num_gpus_per_node": plan.data_parallel_size, "num_nodes": 1, "cpu_offload": False}
    if plan.zero_stage == 3:
        return int(estimate_zero3_model_states_mem_needs(sum(sizes), max(sizes), **ranks)[1])
    return int(estimate_zero2_model_states_mem_needs(sum(sizes), **ranks)[1])


def count_cookbook(plan: RankPlan) -> int:
    """The cookbook's transformer memory calculator, fp16 mixed precision."""
    a, ranks = plan.architecture, plan.data_parallel_size
    hidden, layers, tokens = a.hidden_size, a.num_layers, plan.tokens
    shared = a.num_kv_heads / a.num_attention_heads
    matrices = (3 if a.is_gated else 2) * a.ffn_width / hidden
    parameters = 2 * a.padded_vocab_size * hidden + a.seq_length * hidden + (8 * hidden * layers + 2 * hidden)
    parameters += int((2 * (1 + shared) + matrices) * layers * hidden**2)
    weights = 2 * parameters // (ranks if plan.zero_stage == 3 else 1)
    gradients = 4 * parameters // (ranks if plan.zero_stage >= 2 else 1)
    states = (8 if plan.optimizer in ("sgd_momentum", "muon") else 12) * parameters
    states //= ranks if plan.zero_stage >= 1 else 1
    buffers = 0
    if ranks > 1 and plan.zero_stage >= 1:
        buffers = _BUCKET_BYTES + (_LIVE_BYTES if plan.zero_stage == 3 else 0)
    scores = 0.0 if plan.checkpoint_layers else 5 * a.num_attention_heads * a.seq_length / hidden
    activations = int(tokens * hidden * layers * (34 + scores))
    return weights + gradients + states + buffers + activations


def count_megatron(plan: RankPlan) -> int:
    """Megatron-LM's report: weights and optimizer, activations of every layer, embedding, output and loss."""
    a, tokens = plan.architecture, plan.tokens
    parameters = sum(parameter.count for parameter in list_parameters(a))
    states = parameters * (6 + 12 / plan.data_parallel_size if plan.zero_stage else 18)
    layers = a.num_layers * tokens * a.hidden_size * (18 + 4 * a.ffn_width / a.hidden_size)
    embedding = 8 * tokens + tokens * a.hidden_size
    output = 4 * tokens * (a.hidden_size + a.padded_vocab_size)
    return int(states + layers + embedding + output)


def write_table(measured: dict[str, float]) -> list[str]:
    """Signed errors of this project's estimate and of the rivals, as lines of a Markdown table; ``measured`` in GiB."""
    lines = [TABLE_HEAD, "|---|---|---|---|---|---|"]
    cluster = load_cluster(Path(__file__).parents[1] / "cluster_profiles/h200/cluster.yaml")
    cluster = cluster.model_copy(update={"processes_per_node": 1})
    with tempfile.TemporaryDirectory() as folder:
        for row in find_rows(list(measured)):
            file = Path(folder) / "row.yml"
            # JSON is YAML.
            file.write_text(json.dumps(row.describe(Path(folder) / "store")))
            plan = plan_rank(resolve_files([file], cluster).with_vocab_size(vocab_size(row)), cluster)
            own = max(phase.total for phase in list_phases(plan))
            told = [own, *list_rivals(plan).values()]
            errors = [f"{size / (1 << 30) / measured[row.name] - 1:+.0%}" for size in told]
            # This project's needs a digit more.
            errors[0] = f"{own / (1 << 30) / measured[row.name] - 1:+.1%}"
            lines.append(f"| {row.name} | {measured[row.name]:.2f} | {' | '.join(errors)} |")
    return lines


def read_measured(guide: Path) -> dict[str, float]:
    """Measured GiB by row, from the table of docs/memory.md."""
    lines = guide.read_text().splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("| row | | measured GiB")) + 2
    table = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        name, _, measured, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        table[name] = float(measured)
    return table


if __name__ == "__main__":
    print("\n".join(write_table(read_measured(Path("docs/memory.md")))))
