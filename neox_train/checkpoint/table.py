"""The parameters of a checkpoint: canonical names and global shapes, vocabulary padding removed."""

from __future__ import annotations

import math

from neox_train.checkpoint.manifest import ParameterRecord
from neox_train.config.architecture import Architecture
from neox_train.config.parameters import list_parameters
from neox_train.errors import CheckpointError

ParameterTable = dict[str, ParameterRecord]


def build_table(architecture: Architecture) -> ParameterTable:
    """Records of all parameters, in the model's order; rows past the tokenizer's vocabulary are left out."""
    table: ParameterTable = {}
    for parameter in list_parameters(architecture):
        rows, *rest = parameter.shape
        shape = (architecture.vocab_size if parameter.is_vocabulary else rows, *rest)
        table[parameter.name] = ParameterRecord(
            shape=shape,
            shard_dim=parameter.shard_dim,
            is_vocabulary=parameter.is_vocabulary,
            shard_parts=parameter.shard_parts,
        )
    return table


def count_elements(record: ParameterRecord) -> int:
    """Number of stored elements. Padding rows come last, so the flattened parameter is cut at this number."""
    return math.prod(record.shape)


def check_same_parameters(stored: ParameterTable, wanted: ParameterTable, *, where: str) -> None:
    """Raise CheckpointError, naming the first difference, unless both tables have the same names and shapes."""
    for name in {**wanted, **stored}:
        old, new = stored.get(name), wanted.get(name)
        if old is None or new is None or old.shape != new.shape:
            raise CheckpointError(
                f"{where} holds another model: {name} is {_show(old)} there and {_show(new)} in this configuration; "
                "use the configuration it was trained with"
            )


def _show(record: ParameterRecord | None) -> str:
    return "absent" if record is None else "x".join(map(str, record.shape))
