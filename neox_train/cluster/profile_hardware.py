"""Which GPUs a profile is for: Slurm's types and features, matched with the table of known GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neox_train.cluster.gpu_table import KNOWN_GPUS, KnownGpu, find_gpu, find_gpus, refusal
from neox_train.cluster.gres import UNTYPED
from neox_train.cluster.profile_answers import Answers
from neox_train.cluster.slurm_facts import NodeGroup
from neox_train.errors import ConfigError


@dataclass(frozen=True)
class Hardware:
    """GPUs chosen: the table's entry, Slurm's name of it, how many a node has, and the nodes that have them."""

    known: KnownGpu
    slurm_type: str
    gpus_per_node: int
    groups: Sequence[NodeGroup]
    gres_type: str
    constraint: str


def choose_hardware(answers: Answers, partition: str, groups: Sequence[NodeGroup], style: str) -> Hardware:
    """GPUs of a partition; raises ConfigError where it has none, or where several kinds need a choice nobody makes."""
    if style == "none":
        return _uncounted_hardware(answers, partition, groups)
    types = sorted({kind for group in groups for kind in group.gpus.whole})
    if not types:
        raise ConfigError(_no_gpus(partition, groups))
    if len(types) > 1:
        mix = " and ".join(kind or "GPUs of no named type" for kind in types)
        kind = answers.choose(
            "gpu_type", f"partition {partition} mixes {mix}, a run uses one type", types, default=None
        )
    else:
        kind = types[0]
    having = [group for group in groups if kind in group.gpus.whole]
    known, chosen = _choose_known(answers, kind, having)
    return Hardware(
        known=known,
        slurm_type=kind,
        gpus_per_node=min(group.gpus.whole[kind] for group in chosen),
        groups=chosen,
        gres_type=kind if len(types) > 1 else "",
        constraint=answers.text(
            "constraint", "node features to ask for (empty: none)", default=_telling_feature(known, chosen, having)
        ),
    )


def _uncounted_hardware(answers: Answers, partition: str, groups: Sequence[NodeGroup]) -> Hardware:
    keys = [gpu.key for gpu in KNOWN_GPUS]
    key = answers.choose("gpu", f"GPU of the nodes in {partition}, which Slurm does not count", keys, default=None)
    if not answers.has("processes_per_node"):
        raise ConfigError("with --gres-style none Slurm does not know the GPUs of a node; give --processes-per-node")
    count = answers.number("processes_per_node", "GPUs of a node", default=1)
    known = next(gpu for gpu in KNOWN_GPUS if gpu.key == key)
    return Hardware(known, UNTYPED, count, groups, "", answers.text("constraint", "node features", default=""))


def _choose_known(answers: Answers, kind: str, groups: Sequence[NodeGroup]) -> tuple[KnownGpu, Sequence[NodeGroup]]:
    """The table's entry for a Slurm type, and the nodes it is true of."""
    if reason := refusal(kind):
        raise ConfigError(f"the GPUs are {kind}, {reason}; trainings run on CUDA GPUs with tensor cores")
    meant = {index: find_gpus(kind, group.features) for index, group in enumerate(groups)}
    keys = sorted({gpu.key for found in meant.values() for gpu in found})
    if answers.has("gpu") or (not keys and kind == UNTYPED):
        keys = [gpu.key for gpu in KNOWN_GPUS]
    if not keys:
        raise ConfigError(
            f"the GPU type {kind} is not in the table ({', '.join(gpu.key for gpu in KNOWN_GPUS)}); give --gpu with "
            "the one it is, or write cluster.yaml by hand, from cluster_profiles/h100, with its datasheet's numbers"
        )
    question = f"which GPU is `{kind or 'gpu'}`"
    key = answers.choose("gpu", question, keys, default=keys[0] if len(keys) == 1 else None)
    known = find_gpu(key)
    assert known is not None
    true_of = [group for index, group in enumerate(groups) if known in meant[index]] or list(groups)
    return known, true_of


def _telling_feature(known: KnownGpu, chosen: Sequence[NodeGroup], having: Sequence[NodeGroup]) -> str:
    """A feature of all chosen nodes that no other node has, where others could be given instead; else empty."""
    others = [group for group in having if group not in chosen]
    if not others:
        return ""
    shared = set.intersection(*(set(group.features) for group in chosen))
    telling = sorted(shared - {feature for group in others for feature in group.features})
    return next((word for word in telling if any(size in word for size in known.size_words)), "".join(telling[:1]))


def _no_gpus(partition: str, groups: Sequence[NodeGroup]) -> str:
    slices = sum(sum(group.gpus.slices.values()) * group.nodes for group in groups)
    if slices:
        return f"partition {partition} has {slices} MIG slices and no whole GPU; trainings need whole GPUs"
    return (
        f"partition {partition} has no GPUs; choose another, or where its nodes have GPUs that Slurm does not count, "
        "give --gres-style none, --gpu and --processes-per-node"
    )
