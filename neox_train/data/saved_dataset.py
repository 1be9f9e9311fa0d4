"""Folders that the Hugging Face ``datasets`` library saved: which of their Arrow files hold the rows, in what order."""

from __future__ import annotations

from pathlib import Path

from neox_train.errors import DataError
from neox_train.files import read_json

_STATE_NAME = "state.json"
_SPLITS_NAME = "dataset_dict.json"


def list_saved_dataset(folder: Path) -> list[Path] | None:
    """Arrow files of a dataset saved with ``save_to_disk``, in row order; None where ``folder`` is something else.

    Raises DataError for a folder of several splits, for a damaged one, and for a selection of rows kept as an index.
    """
    if (folder / _SPLITS_NAME).is_file() and not (folder / _STATE_NAME).is_file():
        splits = sorted(path.name for path in folder.iterdir() if (path / _STATE_NAME).is_file())
        raise DataError(
            f"{folder} is a saved dataset of several splits ({', '.join(splits)}); "
            "name the folders of those to read in `source.files`"
        )
    state_file = folder / _STATE_NAME
    if not state_file.is_file() or not (folder / "dataset_info.json").is_file():
        return None
    try:
        state = read_json(state_file)
        names = [entry["filename"] for entry in state["_data_files"]]
        is_selection = bool(state.get("_indices_files") or state.get("_indices_data_files"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{state_file} is damaged; save the dataset again with `save_to_disk`") from error
    if is_selection:
        raise DataError(f"{folder} holds a selection of rows; call `flatten_indices()` on it and save it again")
    files = [folder / name for name in names]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file} is missing, {state_file} names it; copy the whole folder again")
    return files
