"""Whether a run may go on from a checkpoint: same training configuration, dataset and tokenizer, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neox_train.checkpoint.folders import name_step
from neox_train.checkpoint.manifest import Manifest, ParameterRecord
from neox_train.checkpoint.table import build_table, check_same_parameters
from neox_train.config.architecture import Architecture
from neox_train.config.decay_span import default_decay_iters, follows_length
from neox_train.config.digest import BACKENDS
from neox_train.config.voids import is_void
from neox_train.errors import CheckpointError

if TYPE_CHECKING:
    from neox_train.config.layout import RunFolder
    from neox_train.config.schema import NeoxConfig

_ABSENT = "(not set)"
_START_ANEW = "start a run under a new name (with `neox-train train`: another `save` or --run-dir)"
_DECAY = ("lr_decay_iters", "lr_decay_fraction")


def checkpoint_root(config: NeoxConfig, run: RunFolder) -> Path:
    """Folder of the step folders: ``save``, else the run's own."""
    return Path(config.save) if config.save else run.checkpoints


def other_root(config: NeoxConfig, run: RunFolder) -> Path | None:
    """The folder that ``load`` names where it is not that of the run's own checkpoints."""
    if not config.load or Path(config.load).absolute() == checkpoint_root(config, run).absolute():
        return None
    return Path(config.load)


def word_missing(config: NeoxConfig) -> str:
    """The sentence about a ``load`` that leads to no checkpoint."""
    return f"`load: {config.load}` holds no complete checkpoint; correct the path, or remove the key to start at step 0"


def check_weights(manifest: Manifest, config: NeoxConfig, digests: Mapping[str, str | None]) -> list[str]:
    """Notices for a start from a checkpoint's weights alone; CheckpointError where they are another model's."""
    where = f"`load: {config.load}` ({name_step(manifest.step)})"
    check_same_parameters(manifest.parameters, build_table(Architecture.from_config(config)), where=where)
    if manifest.digests.get("tokenizer") == digests.get("tokenizer"):
        return []
    return [f"{where} was trained with another tokenizer than this dataset's: its token ids mean other words here"]


def check_resume(
    manifest: Manifest,
    config: NeoxConfig,
    digests: Mapping[str, str | None],
    allow_changes: Collection[str] = (),
) -> list[str]:
    """Notices for a resume, one sentence each; none where nothing changed.

    Changed ``train_iters``, logging, evaluation and save settings resume with a notice. A change of any other key, of
    the dataset or of the tokenizer raises CheckpointError with both values and the remedies, except for keys in
    ``allow_changes`` (``dataset`` and ``tokenizer`` name those two). Nothing allows weights of other shapes. A decay
    that follows train_iters resumes with a notice of its own.
    """
    saved = _drop_backends(manifest.training_relevant)
    changes: dict[str, tuple[Any, Any]] = _compare(saved, config.training_relevant())
    notices = _judge_decay(changes, manifest, config)
    # A key that has nothing to do now changes nothing, as when a default of it moved between two versions.
    changes = {key: values for key, values in changes.items() if not is_void(config, key)}
    for name in ("dataset", "tokenizer"):
        if manifest.digests.get(name) != digests.get(name):
            changes[name] = (manifest.digests.get(name), digests.get(name))
    if changes and (reshaped := _find_reshaped(manifest, config)):
        raise CheckpointError(
            f"{name_step(manifest.step)} was trained with {_list(changes)}: its weights have other shapes ({reshaped}),"
            f" so no run can go on from it; set the old value, or {_START_ANEW}"
        )
    refused = {key: values for key, values in changes.items() if key not in allow_changes}
    if refused:
        raise CheckpointError(_refusal(manifest.step, refused))
    notices += [
        f"resuming {name_step(manifest.step)} with {key} {_show(new)} in place of {_show(old)}, as allowed"
        for key, (old, new) in changes.items()
    ]
    current = {key: value for key, value in config.to_dict().items() if key not in manifest.training_relevant}
    known = {key: value for key, value in current.items() if key in manifest.other_settings}
    free = _compare(manifest.other_settings, known)
    return notices + [
        f"resuming {name_step(manifest.step)} with {key} {_show(new)}, the checkpoint was saved with {_show(old)}"
        for key, (old, new) in free.items()
        if key in known
    ]


def _judge_decay(changes: dict[str, tuple[Any, Any]], manifest: Manifest, config: NeoxConfig) -> list[str]:
    """Put the decay's real spans in place of how the keys say them; a notice where it follows another train_iters."""
    for key in _DECAY:
        changes.pop(key, None)
    saved = {**manifest.other_settings, **manifest.training_relevant}
    fraction, written = (saved.get(key) for key in ("lr_decay_fraction", "lr_decay_iters"))
    old = default_decay_iters(saved.get("train_iters"), fraction) if written is None else written
    new = config.lr_decay_iters
    if old == new:
        return []
    if written is not None or not follows_length(config.to_dict()) or fraction != config.lr_decay_fraction:
        changes["lr_decay_iters"] = (old, new)
        return []
    return [
        f"resuming {name_step(manifest.step)} with another learning-rate schedule: it follows train_iters, so "
        f"lr_decay_iters is {new} in place of {old} and the rate jumps here; `lr_decay_iters: {old}` keeps the old one"
    ]


def _drop_backends(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys of who computes a layer, which checkpoints of older versions recorded."""
    return {key: value for key, value in saved.items() if key not in BACKENDS}


def _compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    keys = sorted(old.keys() | new.keys())
    pairs = {key: (_plain(old.get(key, _ABSENT)), _plain(new.get(key, _ABSENT))) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _plain(value: Any) -> Any:
    """Tuples as lists and keys as text: what a value is after a trip through JSON."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _find_reshaped(manifest: Manifest, config: NeoxConfig) -> str:
    """The first parameter that a changed model has in another shape, in words; empty where all are the same."""
    if not manifest.parameters or config.vocab_size is None:
        return ""
    wanted = build_table(Architecture.from_config(config))
    for name in {**manifest.parameters, **wanted}:
        old, new = (_shape(table.get(name)) for table in (manifest.parameters, wanted))
        if old != new:
            return f"{name} {old}, now {new}"
    return ""


def _shape(record: ParameterRecord | None) -> str:
    return "absent" if record is None else "x".join(map(str, record.shape))


def _list(changes: Mapping[str, tuple[Any, Any]]) -> str:
    return ", ".join(f"{key} {_show(old)} (now {_show(new)})" for key, (old, new) in changes.items())


def _refusal(step: int, refused: Mapping[str, tuple[Any, Any]]) -> str:
    allowed = " ".join(f"--allow-change {key}" for key in refused)
    return (
        f"{name_step(step)} was trained with {_list(refused)}: a resumed run may not change this; set the old value, "
        f"{_START_ANEW}, or allow it with {allowed}"
        + (" (token ids may mean other words to another tokenizer)" if "tokenizer" in refused else "")
    )
