"""Global batch = micro-batch x gradient accumulation steps x data-parallel degree: any two give the third."""

from __future__ import annotations

from dataclasses import dataclass

from neox_train.config.conflict import ConflictError

_RANKS = "data-parallel ranks (processes / model_parallel_size / pipe_parallel_size)"


@dataclass(frozen=True, slots=True)
class Batches:
    """The three batch numbers, in sequences, for one data-parallel degree."""

    train_batch_size: int
    train_micro_batch_size_per_gpu: int
    gradient_accumulation_steps: int


def derive_batches(
    global_batch: int | None, micro_batch: int | None, accumulation: int | None, data_parallel_size: int
) -> Batches:
    """Fill in what was not written; raises ConflictError where the numbers do not multiply up.

    GPT-NeoX defaults accumulation to 1, which blocks this derivation; here an absent key is derived.
    """
    if global_batch is None and micro_batch is None:
        raise ConflictError(
            "neither train_micro_batch_size_per_gpu nor train_batch_size is set; set the micro-batch (sequences "
            "a rank)",
            "train_micro_batch_size_per_gpu",
            "train_batch_size",
        )
    if global_batch is None:
        assert micro_batch is not None
        accumulation = accumulation or 1
        return Batches(micro_batch * accumulation * data_parallel_size, micro_batch, accumulation)
    if micro_batch is None:
        accumulation = accumulation or 1
        micro_batch = _divide(global_batch, accumulation, data_parallel_size, "gradient_accumulation_steps")
    elif accumulation is None:
        accumulation = _divide(global_batch, micro_batch, data_parallel_size, "train_micro_batch_size_per_gpu")
    if global_batch != micro_batch * accumulation * data_parallel_size:
        raise ConflictError(
            f"train_batch_size is {global_batch}, but train_micro_batch_size_per_gpu {micro_batch} x "
            f"gradient_accumulation_steps {accumulation} x {data_parallel_size} {_RANKS} is "
            f"{micro_batch * accumulation * data_parallel_size}; leave one of the three out and it is derived",
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
            "gradient_accumulation_steps",
        )
    return Batches(global_batch, micro_batch, accumulation)


def _divide(global_batch: int, factor: int, data_parallel_size: int, name: str) -> int:
    quotient, rest = divmod(global_batch, factor * data_parallel_size)
    if rest or quotient == 0:
        raise ConflictError(
            f"train_batch_size {global_batch} is not a multiple of {name} {factor} x {data_parallel_size} "
            f"{_RANKS}; choose a multiple of {factor * data_parallel_size}",
            "train_batch_size",
            name,
        )
    return quotient
