"""Keys of batches, length, saving and validation."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused

_SAVE = "remove it; every checkpoint holds what an exact resume needs"


class BatchKeys(BaseModel):
    """Batches and the length of the run."""

    train_batch_size: int | None = implemented(None, "Global batch in sequences; default the product below.", ge=1)
    train_micro_batch_size_per_gpu: int | None = implemented(
        None, "Micro-batch in sequences a data-parallel rank.", ge=1
    )
    gradient_accumulation_steps: int | None = implemented(
        None, "Micro-batches a rank adds up before a step; derived when absent.", ge=1
    )
    batch_size: int | None = harmless(None, "Computed: the micro-batch.")
    train_iters: int | None = implemented(None, "Optimizer steps of the whole run.", ge=1)
    train_epochs: int | None = refused(None, "Length in passes over the data.", remedy="remove it and set train_iters")
    exit_interval: int | None = refused(
        None,
        "Stop after this many steps.",
        inactive=(0,),
        remedy="remove it and set train_iters; a run that is stopped goes on where it was",
    )
    num_workers: int = harmless(2, "Data-loading processes; windows are mapped, no process is needed.", ge=0)


class CheckpointKeys(BaseModel):
    """What is saved, when, and what is loaded."""

    save: str | None = implemented(None, "Folder to save checkpoints in.")
    load: str | None = implemented(None, "Folder to resume from.")
    checkpoint_factor: int | float | None = implemented(
        None, "Save every this many steps (linear), or at its powers (log)."
    )
    checkpoint_scale: Literal["linear", "log"] = implemented("linear", "Spacing of saves.")
    extra_save_iters: list[int] | None = implemented(None, "More steps to save at; 0 saves the initial weights.")
    keep_last_n_checkpoints: int | None = implemented(None, "Newest checkpoints to keep; default all.", ge=1)
    checkpoint_validation_with_forward_pass: bool = harmless(False, "Checkpoints are verified by hash.")
    no_save_optim: bool = refused(False, "Leave optimizer states out.", remedy=_SAVE)
    no_save_rng: bool = refused(False, "Leave random-number states out.", remedy=_SAVE)
    no_load_optim: bool = refused(
        False, "Load weights only.", remedy="remove it, and set finetune: true to begin with another run's weights"
    )
    no_load_rng: bool = refused(
        False, "Do not restore random-number states.", remedy="remove it; a run resumes with its random-number states"
    )
    finetune: bool = implemented(False, "Begin at step 0 with the weights alone of load's newest checkpoint.")
    checkpoint: dict[str, object] | None = refused(
        None,
        "DeepSpeed's checkpoint block.",
        remedy="remove it; checkpoint_factor, keep_last_n_checkpoints and save decide about checkpoints",
    )
    s3_path: str | None = refused(
        None,
        "Upload checkpoints to S3.",
        remedy="remove it and copy finished checkpoints to S3 with a tool of your site",
    )
    s3_chunk_size: int = harmless(104857600, "Chunk of uploads to S3.")


class EvaluationKeys(BaseModel):
    """Validation while training."""

    eval_interval: int = implemented(1000, "Steps between validations.", ge=1)
    eval_iters: int = implemented(100, "Global batches of a validation.", ge=0)
    char_level_ppl: bool = refused(
        False,
        "Perplexity a character; bits per byte are always reported.",
        remedy="remove it; bits per byte are always reported",
    )
    eval_tasks: list[str] | None = refused(
        None, "Evaluation-harness tasks.", remedy="remove it; the evaluate stage measures the exported model"
    )
    eval_results_prefix: str = harmless("", "Prefix of result files.")
