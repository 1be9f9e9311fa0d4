"""The exported Hugging Face folder of a run, loaded the way any user would: transformers, local files, no network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neox_train.errors import UserError
from neox_train.files import sha256_file, sha256_json

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def export_digest(folder: Path) -> str:
    """SHA-256 over names and contents of every file in an exported folder; UserError where there is no model in it."""
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder} holds no exported model (no config.json); run `neox-train convert` for this run first"
        )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return sha256_json({str(path.relative_to(folder)): sha256_file(path) for path in files})


def load_exported_model(folder: Path) -> Any:
    """The causal language model in ``folder``, in evaluation mode.

    On CPU the weights become fp32; on a GPU they keep the precision of the files.
    """
    os.environ.update(_OFFLINE)
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # Its bar would fill a log file with carriage returns.
    logging.disable_progress_bar()
    on_gpu = torch.cuda.is_available()
    with _transformers_errors(folder):
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, dtype="auto" if on_gpu else torch.float32
        )
    model.eval()
    return model.to("cuda") if on_gpu else model


def load_exported_tokenizer(folder: Path) -> Any:
    """The tokenizer in ``folder``."""
    os.environ.update(_OFFLINE)
    from transformers import AutoTokenizer

    with _transformers_errors(folder):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)


@contextmanager
def _transformers_errors(folder: Path) -> Iterator[None]:
    """Turn what transformers raises for an incomplete folder into one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{folder} cannot be loaded by transformers ({reason}); delete it and run `neox-train convert` again"
        ) from error
