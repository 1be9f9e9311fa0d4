"""Keys of token data: where it lies and how it is drawn."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from neox_train.config.keys import harmless, implemented, refused

TOKENIZER_TYPES = (
    "HFTokenizer",
    "HFGPT2Tokenizer",
    "GPT2BPETokenizer",
    "CharLevelTokenizer",
    "TiktokenTokenizer",
    "SPMTokenizer",
)
"""GPT-NeoX's names, upper or lower case alike."""


class DataKeys(BaseModel):
    """Token stores, blends and the tokenizer."""

    data_path: str | None = implemented(
        None, "Dataset folder (manifest.json), or .bin/.idx files without the suffix; the pipeline replaces it."
    )
    train_data_paths: list[str] | None = implemented(
        None,
        "Dataset folders, or .bin/.idx prefixes, to blend for training; data_path stays the source of validation and "
        "tokenizer.",
    )
    valid_data_paths: list[str] | None = implemented(
        None,
        "Dataset folders to blend for validation: their validation splits, or the whole of one that has none; or whole "
        ".bin/.idx files.",
    )
    test_data_paths: list[str] | None = implemented(
        None, "The same for the test loss, measured once at the end of the training over eval_iters batches."
    )
    train_data_weights: list[float] | None = implemented(
        None, "Weights of train_data_paths; without them every window counts the same, of .bin/.idx files every set."
    )
    valid_data_weights: list[float] | None = implemented(
        None, "Weights of valid_data_paths; without them as for training."
    )
    test_data_weights: list[float] | None = implemented(
        None, "Weights of test_data_paths; without them as for training."
    )
    weight_by_num_documents: bool = implemented(
        False, "Weights of a blend from document counts, by GPT-NeoX's formula."
    )
    weighted_sampler_alpha: float = implemented(1.0, "Exponent of weight_by_num_documents.", ge=0)
    blend_temperature: float = implemented(
        1.0, "Weights of a blend to the power 1 / temperature; above 1 the small sets gain.", gt=0
    )
    split: str = implemented(
        "969, 30, 1", "Shares of train, validation, test in .bin/.idx files; a dataset folder has its own splits."
    )
    data_impl: Literal["infer", "mmap", "cached", "lazy"] = harmless("infer", "Format of .bin/.idx files.")
    mmap_warmup: bool = harmless(False, "Read mapped files once before training.")
    use_shared_fs: bool = harmless(True, "Where index files are built; no index file is needed.")
    vocab_file: str | None = implemented(
        None,
        "Tokenizer of .bin/.idx files, read by tokenizer_type: file, folder or tiktoken's name; a dataset folder has "
        "its own tokenizer.json.",
    )
    merge_file: str | None = implemented(None, "Merges beside the vocab_file of a GPT2BPETokenizer.")
    tokenizer_type: str = implemented(
        "GPT2BPETokenizer",
        f"What vocab_file is, for .bin/.idx files: {', '.join(TOKENIZER_TYPES)}; without merge_file a tokenizer.json "
        "is read as one.",
    )
    pack_impl: Literal["packed", "pack_until_overflow", "unpacked"] = refused(
        "packed",
        "How documents are laid into sequences.",
        remedy="remove it; documents are packed back to back, document_attention: true keeps them apart",
    )
    allow_chopped: bool = refused(
        True,
        "Cut documents at sequence ends; false is for unpacked data.",
        remedy="remove it; documents are packed back to back and cut at sequence ends",
    )
    short_seq_prob: float = harmless(0.1, "Without effect in GPT-NeoX too.")
    eod_mask_loss: bool = implemented(
        False, "Leave the first token of the next document, predicted after an end-of-document token, out of the loss."
    )


_PREFERENCE = "remove it; training by preference is not built"
_LABELS = f"{_PREFERENCE}, train_label_data_paths masks tokens of plain training"


class PreferenceDataKeys(BaseModel):
    """Labels, rewards and pairs, for training by preference."""

    train_label_data_paths: list[str] | None = implemented(
        None, ".bin/.idx files beside those of train_data_paths: labels below 0 leave their tokens out of the loss."
    )
    valid_label_data_paths: list[str] | None = implemented(
        None, ".bin/.idx files beside those of valid_data_paths: labels below 0 leave their tokens out of the loss."
    )
    test_label_data_paths: list[str] | None = implemented(
        None, ".bin/.idx files beside those of test_data_paths: labels below 0 leave their tokens out of the loss."
    )
    train_reward_data_paths: list[str] | None = refused(None, "Rewards of training data.", remedy=_PREFERENCE)
    valid_reward_data_paths: list[str] | None = refused(None, "Rewards of validation data.", remedy=_PREFERENCE)
    test_reward_data_paths: list[str] | None = refused(None, "Rewards of test data.", remedy=_PREFERENCE)
    pos_train_data_paths: list[str] | None = refused(None, "Preferred training data.", remedy=_PREFERENCE)
    pos_valid_data_paths: list[str] | None = refused(None, "Preferred validation data.", remedy=_PREFERENCE)
    pos_test_data_paths: list[str] | None = refused(None, "Preferred test data.", remedy=_PREFERENCE)
    neg_train_data_paths: list[str] | None = refused(None, "Rejected training data.", remedy=_PREFERENCE)
    neg_valid_data_paths: list[str] | None = refused(None, "Rejected validation data.", remedy=_PREFERENCE)
    neg_test_data_paths: list[str] | None = refused(None, "Rejected test data.", remedy=_PREFERENCE)
    pos_train_label_data_paths: list[str] | None = refused(None, "Labels of preferred training data.", remedy=_LABELS)
    pos_valid_label_data_paths: list[str] | None = refused(None, "Labels of preferred validation data.", remedy=_LABELS)
    pos_test_label_data_paths: list[str] | None = refused(None, "Labels of preferred test data.", remedy=_LABELS)
    neg_train_label_data_paths: list[str] | None = refused(None, "Labels of rejected training data.", remedy=_LABELS)
    neg_valid_label_data_paths: list[str] | None = refused(None, "Labels of rejected validation data.", remedy=_LABELS)
    neg_test_label_data_paths: list[str] | None = refused(None, "Labels of rejected test data.", remedy=_LABELS)
