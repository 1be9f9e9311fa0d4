"""Logits and cross-entropy: often the largest tensors of a small model."""

from __future__ import annotations

from neox_train.memory.plan import RankPlan

_FP32 = 4


def count_loss(plan: RankPlan) -> int:
    """Bytes at the peak of the loss.

    Forward: the logits, their fp32 copy without the padding columns (none where there is nothing to change) and the
    log-probabilities. Backward: log-probabilities, the gradient of the loss and the gradient of the logits, in fp32.
    Cut over tensor-parallel ranks: the logits and their fp32 copy, which becomes the probabilities; then these and the
    gradient of the logits, which a CPU computes in fp32 before it rounds to 16 bits.
    """
    a = plan.architecture
    if plan.tensor_parallel_size > 1:
        shard = a.padded_vocab_size // plan.tensor_parallel_size
        logits, full = plan.weight_bytes * plan.tokens * shard, _FP32 * plan.tokens * shard
        widened = plan.device == "cpu" and plan.precision != "fp32"
        return logits + full * (2 if widened else 1)
    logits = plan.weight_bytes * plan.tokens * a.padded_vocab_size
    full = _FP32 * plan.tokens * a.vocab_size
    changed = plan.precision != "fp32" or a.vocab_size != a.padded_vocab_size
    return max(logits + full * (2 if changed else 1), 3 * full)


def count_logit_gradient(plan: RankPlan) -> int:
    """Bytes of the logits' gradient while it is multiplied into the output matrix."""
    return plan.weight_bytes * plan.tokens * plan.architecture.padded_vocab_size // plan.tensor_parallel_size
