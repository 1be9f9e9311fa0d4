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
    if plan.loss_chunk_tokens:
        return _count_chunk(plan)
    if plan.tensor_parallel_size > 1:
        shard = a.padded_vocab_size // plan.tensor_parallel_size
        logits, full = plan.weight_bytes * plan.tokens * shard, _FP32 * plan.tokens * shard
        widened = plan.device == "cpu" and plan.precision != "fp32"
        return logits + full * (2 if widened else 1)
    logits = plan.weight_bytes * plan.tokens * a.padded_vocab_size
    full = _FP32 * plan.tokens * a.vocab_size
    changed = plan.precision != "fp32" or a.vocab_size != a.padded_vocab_size
    return max(logits + full * (2 if changed else 1), 3 * full)


def _count_chunk(plan: RankPlan) -> int:
    """A chunk's logits and their gradient beside the gradient of the chunk before; the gradients of the hidden states
    and of the output matrix: added up in fp32, one chunk's product beside it.
    """
    a = plan.architecture
    tokens = min(plan.loss_chunk_tokens, plan.tokens)
    # A GPU's kernel keeps the fp32 scores in registers, a CPU holds scores, exponentials and their difference.
    scores = 0 if plan.device == "cuda" else 3 * _FP32
    held = 3 if plan.tokens > tokens else 2
    logits = (held * plan.weight_bytes + scores) * tokens * a.padded_vocab_size
    matrix = (_FP32 + plan.weight_bytes) * a.padded_vocab_size * a.hidden_size
    return logits + matrix + plan.weight_bytes * plan.tokens * a.hidden_size


def count_logit_gradient(plan: RankPlan) -> int:
    """Bytes of the logits' gradient while it is multiplied into the output matrix."""
    if plan.loss_chunk_tokens:
        a = plan.architecture
        # Made during the loss: what waits are the gradients of the hidden states and of the matrix.
        return plan.weight_bytes * (plan.tokens + a.padded_vocab_size) * a.hidden_size
    return plan.weight_bytes * plan.tokens * plan.architecture.padded_vocab_size // plan.tensor_parallel_size
