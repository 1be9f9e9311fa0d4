"""What ``gradient_compression: auto`` takes when a training starts or resumes, and the line that says why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neox_train.memory.compression_advice import MARGIN, Advice, Link, StepFacts, advise

_STATELESS = ("none", "bf16", "fp16")
"""Methods that leave nothing unsent behind: a resumed training may go on from them with any other."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The method, and one line with what was measured and predicted."""

    method: str
    sentence: str


def choose_method(
    link: Link | None,
    facts: StepFacts,
    *,
    allowed: Iterable[str],
    previous: str | None = None,
    is_fixed: bool = False,
) -> Choice:
    """The advised method of ``allowed``; ``link`` is None for one replica, which sends nothing.

    ``previous`` is the method of the checkpoint. It stays where its state has no meaning for another method, where the
    advised one does not win by the advice's margin over it, and with ``is_fixed``.
    """
    if link is None:
        kept = previous if previous not in (None, *_STATELESS) else "none"
        return Choice(kept or "none", f"gradient_compression auto: {kept}; one replica sends nothing")
    advice = advise(link, facts, allowed={*allowed, *([previous] if previous else [])})
    measured = (
        f"measured {link.gb_per_second:.3g} GB/s and {link.latency_seconds * 1e3:.2g} ms a message between "
        f"{facts.replicas} replicas, {facts.parameters * facts.element_bytes / 1e6:.4g} MB of gradients, "
        f"{facts.compute_seconds:.3g} s of computing a step; {advice.reason}"
    )
    method, why = _hold(advice, previous, is_fixed=is_fixed)
    return Choice(method, f"gradient_compression auto: {method}{why}; {measured}")


def _hold(advice: Advice, previous: str | None, *, is_fixed: bool) -> tuple[str, str]:
    """The method to go on with, and why in a few words."""
    if previous is None:
        return advice.method, ""
    if advice.method == previous:
        return previous, ", as in the checkpoint"
    if previous not in _STATELESS:
        return previous, f", kept although {advice.method} is advised now: the checkpoint holds what it has not sent"
    if is_fixed:
        return previous, f", kept although {advice.method} is advised now: deterministic is true"
    if advice.relative_seconds[advice.method] >= MARGIN * advice.relative_seconds[previous]:
        return previous, f", kept: {advice.method} is predicted to win by less than {1 - MARGIN:.0%}"
    return advice.method, f" in place of the checkpoint's {previous}"
