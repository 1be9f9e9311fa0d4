"""What is wrong with the data of a training is told before a process starts, in the words of the ranks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from neox_train.cluster.visible_data import require_visible_data, require_visible_data_apart
from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.load import write_config
from neox_train.config.schema import NeoxConfig
from neox_train.data.opening import require_data
from neox_train.errors import ConfigError, UserError
from neox_train.training.dataset import TrainingData
from tests.data.pairs import write_pair
from tests.training.synthetic import VOCAB_SIZE, resolve, write_dataset


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dataset folders ``a``, ``b`` and ``other`` (of another tokenizer), a link to ``a``, and .bin/.idx files."""
    place = tmp_path_factory.mktemp("sets")
    for name in ("a", "b", "other"):
        dataset = write_dataset(place / name, train_tokens=6_000, validation_tokens=600)
    manifest = dataset.manifest.read_text()
    digest = manifest.split('"tokenizer_sha256": "')[1][:64]
    dataset.manifest.write_text(manifest.replace(digest, "0" * 64))
    (place / "link").symlink_to("a")
    write_pair(place / "pair", [[token % VOCAB_SIZE for token in range(200)] for _ in range(40)])
    write_pair(place / "wild", [[1, 2, VOCAB_SIZE + 5] * 50])
    write_pair(place / "labels", [[1] * 3])
    write_pair(place / "empty", [[1]])
    return place


def settle(sets: Path, **changes: Any) -> NeoxConfig:
    named = {
        key: [str(sets / name) for name in value]
        if isinstance(value, list)
        else str(sets / value)
        if key.endswith("_path") and value
        else value
        for key, value in changes.items()
    }
    return resolve(DatasetFolder(sets / "a"), RunFolder(Path("unused")), max_position_embeddings=100_000, **named)


PAIR = {"data_path": "pair", "split": "90,10,0"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train_data_paths": ["a", "gone"]}, "gone/manifest.json cannot be read"),
        ({"train_data_paths": ["a", "other"]}, "other was made with another tokenizer than"),
        ({"valid_data_paths": ["other"]}, "other was made with another tokenizer than"),
        ({"test_data_paths": ["gone"]}, "gone/manifest.json cannot be read"),
        ({"train_data_paths": ["a", "pair"]}, "a blend is of one kind"),
        ({"train_data_paths": ["pair"], "data_path": None}, "nothing is left to validate on"),
        ({"train_data_paths": ["pair", "wild"]}, "wild.bin has the token id"),
        ({"train_data_paths": ["pair", "empty"]}, "has 1 tokens, too few for a window"),
        ({"train_data_paths": ["pair"], "train_label_data_paths": ["labels"]}, "each token wants a label"),
        ({"valid_data_paths": ["b"], "valid_label_data_paths": ["labels"]}, "dataset folders, which have no labels"),
        ({"seq_length": 100_000}, "the train split is shorter than one window"),
        ({"seq_length": 1_500}, "the validation split has no window"),
        ({**PAIR, "data_path": "wild"}, "wild.bin has the token id"),
        ({**PAIR, "eod_mask_loss": True}, "needs the end-of-document token"),
        ({**PAIR, "split": "100,0,0"}, "the validation split has no window"),
    ],
)
def test_a_mistake_is_told_in_the_words_of_the_ranks(sets: Path, changes: dict[str, Any], words: str) -> None:
    config = settle(sets, **{"eval_iters": 1, **changes})
    with pytest.raises(UserError, match=words) as before:
        require_visible_data(config)
    assert before.value.exit_code == 2
    with pytest.raises(UserError) as after:
        TrainingData.open(config).validation_batches(config, SimpleNamespace(data_parallel_rank=0))
    assert (type(before.value), str(before.value)) == (type(after.value), str(after.value))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train_data_paths": ["a", "b"], "test_data_paths": ["b"]},
        PAIR,
        {"train_data_paths": ["pair"]},
        {"train_data_paths": ["pair"], "data_path": None, "eval_iters": 0},
        {"seq_length": 1_500, "eval_iters": 0},
    ],
)
def test_what_can_be_trained_on_passes(sets: Path, changes: dict[str, Any]) -> None:
    config = settle(sets, **changes)
    require_data(config)
    TrainingData.open(config)


def test_two_names_of_one_set_are_told(sets: Path) -> None:
    with pytest.raises(UserError, match=r"`train_data_paths`: .*/a and .*/link are the same dataset"):
        require_data(settle(sets, train_data_paths=["a", "link"]))


def test_data_of_which_nothing_is_seen_are_left_to_the_ranks(sets: Path) -> None:
    require_visible_data(settle(sets, data_path="gone", train_data_paths=["away"]))


def test_another_process_looks_so_that_who_follows_stays_small(sets: Path, tmp_path: Path) -> None:
    for name, changes in (("good", {}), ("bad", {"train_data_paths": ["a", "gone"]})):
        write_config(settle(sets, **changes), RunFolder(tmp_path / name).config_file)
    require_visible_data_apart(RunFolder(tmp_path / "good"))
    with pytest.raises(ConfigError, match=r"gone/manifest\.json cannot be read"):
        require_visible_data_apart(RunFolder(tmp_path / "bad"))
    script = "import sys, neox_train.cluster.submission; assert not {'numpy', 'h5py', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_no_torch_is_needed() -> None:
    script = "import sys, neox_train.data.opening; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
