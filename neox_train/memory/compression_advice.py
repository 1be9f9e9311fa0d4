"""Which ``gradient_compression`` reaches a loss soonest over given links: a model of seconds, without torch.

A step takes its computing, the method's own work, and what of the communication computing cannot hide. A method that
changes what is learnt from a step needs more steps to the same loss: ``steps_factors``. Predicted seconds to a loss are
the product. A method must win by ``MARGIN`` over those that change the training less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_WIRE_BYTES = {"none": None, "bf16": 2.0, "fp16": 2.0}
_FACTOR_BYTES = 4.0
"""PowerSGD's factors travel in fp32."""
_EXACT = ("none", "bf16", "fp16")
"""Methods whose steps are worth as much as uncompressed ones."""
_ONE_BIT = ("onebit_adam", "zero_one_adam", "onebit_lamb")
METHODS = ("none", "bf16", "fp16", "powersgd", *_ONE_BIT, "local_update")
"""In the order of preference: the first ones change the training least."""
_SIGN_BYTES = 1 / 8 + 4 / 256
"""A bit, and its part of a scale in fp32."""
_LAMB_MOMENT_BYTES = 2 / 10
"""1-bit LAMB's second moments, in 16 bits in one step of ten."""
_ONE_BIT_CALLS = 2
"""Collectives of an exchange: signs with their scales to the ranks that serve them, and back."""
STEPS_FACTORS = {"powersgd": 1.2, **dict.fromkeys(_ONE_BIT, 1.2), "local_update": 1.4}
"""Steps to the same loss by those without compression, as ``benchmarks/slow_link.py`` saw them in 160 steps of a small
model, and local updates with their default settings in 400 (docs/communication.md). Longer trainings differ, local
updates most: pass your own."""
MARGIN = 0.85
"""A method is advised where its time is below this share of a gentler one's: converting numbers costs what the model
does not count. Seen at 10 Gb/s: 16 bits, predicted at 0.86 of the time, took more than whole gradients."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What replicas communicate over, measured by an all-reduce of a large buffer, or a profile's fact."""

    gb_per_second: float
    """Bus bandwidth, as nccl-tests count it: 2 (n - 1) / n times bytes by seconds."""
    latency_seconds: float = 0.0
    """Of one small all-reduce."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFacts:
    """One training step as the advice sees it, on one rank."""

    replicas: int
    parameters: int
    """Of which this rank averages the gradients."""
    element_bytes: float
    """Of a gradient as it travels without compression: 4 in fp32, 2 in 16 bits."""
    compute_seconds: float
    """Of a step without its communication."""
    overlap_fraction: float = 0.0
    """Of the uncompressed communication that computing hides; PowerSGD and local updates hide nothing."""
    powersgd_share: float = 0.2
    """Elements of PowerSGD's factors by those of the gradients (``memory.compression`` counts them)."""
    one_bit_warmup_share: float = 0.2
    """Of the training's steps in which 1-bit optimizers send whole gradients (``config.one_bit``)."""
    tensors: int = 1
    """Weights that 1-bit Adam and 0/1 Adam exchange one by one; 1-bit LAMB has one buffer."""
    local_update_steps: int = 50
    local_whole_share: float = 0.2
    """Of the training's steps in which local updates send whole gradients (``config.local_update``)."""
    local_element_bytes: float = 4.0
    method_seconds: Mapping[str, float] = field(default_factory=dict)
    """Own work of a method in a step, beside communication, where it was measured.

    1-bit methods are advised only with it: packing signs took more than the link at 1 Gb/s on two cores.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The method, and what was predicted for each that was allowed."""

    method: str
    step_seconds: Mapping[str, float]
    communication_seconds: Mapping[str, float]
    """Exposed, mean of a step."""
    relative_seconds: Mapping[str, float]
    """To the same loss, by those of ``none``."""
    reason: str


def advise(
    link: Link,
    facts: StepFacts,
    *,
    allowed: Iterable[str] = METHODS,
    steps_factors: Mapping[str, float] = STEPS_FACTORS,
) -> Advice:
    """The method of ``allowed`` with the shortest predicted time to a loss; ``none`` is always allowed.

    Raises ValueError for a bandwidth that is not positive or a method that the model does not know.
    """
    if link.gb_per_second <= 0:
        raise ValueError(f"gb_per_second is {link.gb_per_second}; a link has a positive bandwidth")
    methods = ["none", *(method for method in allowed if method != "none")]
    if unknown := [method for method in methods if method not in METHODS]:
        raise ValueError(f"no model of {', '.join(unknown)}; known are {', '.join(METHODS)}")
    methods.sort(key=METHODS.index)
    communication = {method: predict_exposed(method, link, facts) for method in methods}
    steps = {m: facts.compute_seconds + facts.method_seconds.get(m, 0.0) + communication[m] for m in methods}
    relative = {m: _factor(m, steps_factors) * steps[m] / max(steps["none"], 1e-12) for m in methods}
    chosen = _choose({m: seconds for m, seconds in relative.items() if m not in _ONE_BIT or m in facts.method_seconds})
    return Advice(
        method=chosen,
        step_seconds=steps,
        communication_seconds=communication,
        relative_seconds=relative,
        reason=_reason(chosen, link, steps, communication, relative),
    )


def predict_exposed(method: str, link: Link, facts: StepFacts) -> float:
    """Seconds of a step in which computing waits for what ``method`` sends, mean over steps."""
    if facts.replicas < 2:
        return 0.0
    if method == "local_update":
        change = _all_reduce_seconds(facts.parameters * facts.local_element_bytes, link, facts.replicas)
        whole = _all_reduce_seconds(facts.parameters * facts.element_bytes, link, facts.replicas)
        share = facts.local_whole_share
        return share * whole + (1 - share) * change / facts.local_update_steps + link.latency_seconds
    if method == "powersgd":
        share_bytes = facts.parameters * facts.powersgd_share * _FACTOR_BYTES
        # Two kinds of factors, one after the other, what is sent whole, and the word that all are finite.
        return _all_reduce_seconds(share_bytes, link, facts.replicas) + 3 * link.latency_seconds
    if method in _ONE_BIT:
        share = facts.one_bit_warmup_share
        calls = _ONE_BIT_CALLS * (1 if method == "onebit_lamb" else facts.tensors)
        sent = _SIGN_BYTES + (_LAMB_MOMENT_BYTES if method == "onebit_lamb" else 0)
        signs = _all_reduce_seconds(facts.parameters * sent, link, facts.replicas)
        whole = _all_reduce_seconds(facts.parameters * facts.element_bytes, link, facts.replicas)
        # And the word that all gradients are finite, every step.
        return share * whole + (1 - share) * (signs + (calls - 1) * link.latency_seconds) + link.latency_seconds
    element_bytes = _WIRE_BYTES[method] or facts.element_bytes
    seconds = _all_reduce_seconds(facts.parameters * element_bytes, link, facts.replicas)
    uncompressed = _all_reduce_seconds(facts.parameters * facts.element_bytes, link, facts.replicas)
    return max(0.0, seconds - facts.overlap_fraction * min(uncompressed, facts.compute_seconds))


def _all_reduce_seconds(size_bytes: float, link: Link, replicas: int) -> float:
    return 2 * (replicas - 1) / replicas * size_bytes / (link.gb_per_second * 1e9) + link.latency_seconds


def _factor(method: str, steps_factors: Mapping[str, float]) -> float:
    return 1.0 if method in _EXACT else steps_factors[method]


def _choose(relative: Mapping[str, float]) -> str:
    chosen = "none"
    for method, seconds in relative.items():
        if seconds < MARGIN * relative[chosen]:
            chosen = method
    return chosen


def _reason(
    chosen: str,
    link: Link,
    steps: Mapping[str, float],
    communication: Mapping[str, float],
    relative: Mapping[str, float],
) -> str:
    share = communication["none"] / steps["none"] if steps["none"] else 0.0
    measured = f"at {link.gb_per_second:.3g} GB/s communication is {share:.0%} of an uncompressed step"
    if chosen == "none":
        return f"gradient_compression none: {measured}, and no other method is predicted to reach a loss sooner"
    saved = 1 - communication[chosen] / communication["none"]
    return (
        f"gradient_compression {chosen}: {measured}; it is predicted to take {saved:.0%} less communication and "
        f"{relative[chosen]:.2f} of the time to the same loss"
    )
