"""Maximal-update parametrisation (Yang et al., arXiv 2203.03466): how much wider a model is than the tuned one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from neox_train.config.conflict import ConflictError
from neox_train.config.schema import NeoxKeys

_EMBEDDING = "word_embeddings.weight"


def derive_mup_base(keys: NeoxKeys) -> int | None:
    """hidden_size of the tuned model, None without ``use_mup``; raises ConflictError where no key tells it."""
    if not keys.use_mup:
        if keys.mup_base_hidden_size is not None:
            raise ConflictError(
                f"mup_base_hidden_size is {keys.mup_base_hidden_size} without use_mup; set use_mup: true, or remove it",
                "mup_base_hidden_size",
            )
        return None
    if keys.mup_base_hidden_size is not None:
        return keys.mup_base_hidden_size
    if keys.base_shapes_file is None:
        raise ConflictError(
            "use_mup needs the hidden_size of the model whose hyper-parameters were tuned; set mup_base_hidden_size "
            "(or base_shapes_file)",
            "use_mup",
        )
    return _read_base_width(Path(keys.base_shapes_file))


def _read_base_width(path: Path) -> int:
    """The width of the word embeddings in a file of the mup package: ``{name: [sizes, null where not a width]}``.

    GPT-NeoX writes one file a rank and puts the rank behind the name, so that ``PATH.0`` is found by PATH too.
    """
    if not path.exists():
        path = _of_rank_0(path) if _of_rank_0(path).exists() else path
    try:
        shapes: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConflictError(
            f"base_shapes_file {path} cannot be read ({type(error).__name__}); set mup_base_hidden_size",
            "base_shapes_file",
        ) from None
    found = [shape for name, shape in shapes.items() if str(name).endswith(_EMBEDDING)] if _is_table(shapes) else []
    widths = {shape[-1] for shape in found if isinstance(shape, list) and shape and isinstance(shape[-1], int)}
    if len(widths) != 1:
        raise ConflictError(
            f"base_shapes_file {path} does not tell the width of {_EMBEDDING}; set mup_base_hidden_size",
            "base_shapes_file",
        )
    (width,) = widths
    return int(width)


def _of_rank_0(path: Path) -> Path:
    return path.with_name(f"{path.name}.0")


def _is_table(shapes: object) -> bool:
    return isinstance(shapes, dict)
