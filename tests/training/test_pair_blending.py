from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import identify_data
from neox_train.data.mmap_files import MmapTokens, export_mmap
from neox_train.data.neox_blend import NeoxBlendOrder, count_samples
from neox_train.data.neox_order import NeoxOrder
from neox_train.data.store import TokenStore
from neox_train.errors import ConfigError
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from tests.training.synthetic import VOCAB_SIZE, resolve, write_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DatasetFolder:
    return write_dataset(tmp_path_factory.mktemp("folder") / "whole", train_tokens=6_000, validation_tokens=1_500)


@pytest.fixture(scope="module")
def pairs(dataset: DatasetFolder) -> list[str]:
    """The folder's splits as files of GPT-NeoX."""
    prefixes = [dataset.path.parent / split for split in ("train", "validation")]
    for prefix in prefixes:
        export_mmap(TokenStore.open(dataset.path, prefix.name), prefix, vocab_size=VOCAB_SIZE)
    return [str(prefix) for prefix in prefixes]


def settle(dataset: DatasetFolder, **changes: Any) -> NeoxConfig:
    return resolve(dataset, RunFolder(Path("unused")), **changes)


def read(config: NeoxConfig, alone: RankContext, batches: int, consumed: int = 0) -> np.ndarray:
    return np.concatenate(list(islice(TrainingData.open(config).train_batches(config, alone, consumed), batches)))


def test_a_blend_of_files_trains_in_gpt_neoxs_order_and_goes_on_there(
    dataset: DatasetFolder, pairs: list[str], alone: RankContext
) -> None:
    blended = {"train_data_paths": pairs, "train_data_weights": [3.0, 1.0], "data_path": None, "eval_iters": 0}
    config = settle(dataset, **blended)
    num_samples = (config.train_iters or 0) * config.train_batch_size
    tokens = [MmapTokens.open(Path(pair)) for pair in pairs]
    orders = [
        NeoxOrder(pair, range(len(pair)), num_samples=wanted, seq_length=config.seq_length, seed=config.seed)
        for pair, wanted in zip(tokens, count_samples([0.75, 0.25], num_samples), strict=True)
    ]
    blend = NeoxBlendOrder(orders, [0.75, 0.25])
    size, rows = config.train_micro_batch_size_per_gpu, []
    for which, own in map(blend.locate, range(12 * size)):
        start = orders[which][own] * config.seq_length
        rows.append(orders[which].stream.read(start, start + config.seq_length + 1).tolist())
    assert read(config, alone, 12).tolist() == rows
    assert read(config, alone, 7, consumed=5 * size).tolist() == rows[5 * size :]
    data = TrainingData.open(config)
    assert f"{pairs[0]} 75.0000%, {pairs[1]} 25.0000%" in data.notice
    assert data.test is None and len(data.validation) == 0
    # Beside a dataset folder, as under the pipeline: its vocabulary and its validation split.
    beside = settle(dataset, train_data_paths=pairs, train_data_weights=[3.0, 1.0])
    assert read(beside, alone, 12).tolist() == rows
    assert len(TrainingData.open(beside).validation) > 0


def test_without_weights_sets_count_the_same_and_documents_weigh_on_request(
    dataset: DatasetFolder, pairs: list[str]
) -> None:
    def shares(**changes: Any) -> str:
        return TrainingData.open(settle(dataset, train_data_paths=pairs, **changes)).notice

    assert f"{pairs[0]} 50.0000%, {pairs[1]} 50.0000%" in shares()
    assert "50.0000%" in shares(weight_by_num_documents=True, weighted_sampler_alpha=1.0)
    assert f"{pairs[0]} 75.0000%" in shares(train_data_weights=[9.0, 1.0], blend_temperature=2.0)


def test_held_out_files_are_read_whole_and_fixed(dataset: DatasetFolder, pairs: list[str], alone: RankContext) -> None:
    config = settle(dataset, train_data_paths=pairs[:1], valid_data_paths=pairs[1:], eval_iters=1, data_path=None)
    rows = next(iter(TrainingData.open(config).validation_batches(config, alone)))
    store = TokenStore.open(dataset.path, "validation")
    assert rows[0].tolist() == store.read(0, config.seq_length + 1).tolist()
    config = config.model_copy(update={"valid_data_paths": pairs, "test_data_paths": pairs[1:]})
    data = TrainingData.open(config)
    assert f"{pairs[0]} is trained on too" in data.notice
    assert "blend of the test samples" in data.notice
    batches = data.test_batches(config, alone)
    assert batches is not None and next(iter(batches)).tolist() == rows.tolist()


def test_test_data_of_a_folder_are_its_test_split(dataset: DatasetFolder, alone: RankContext, tmp_path: Path) -> None:
    config = settle(dataset, test_data_paths=[str(dataset.path)], eval_iters=1)
    batches = TrainingData.open(config).test_batches(config, alone)
    assert batches is not None
    store = TokenStore.open(dataset.path, "test")
    assert next(iter(batches))[0].tolist() == store.read(0, config.seq_length + 1).tolist()
    long = config.model_copy(update={"seq_length": 2_000})
    with pytest.raises(ConfigError, match=r"`test_data_paths`: .* is shorter than one window"):
        TrainingData.open(long).test_batches(long, alone)
    # Validation and test have fewer windows than are asked for: each is told once.
    notice = TrainingData.open(config.model_copy(update={"eval_iters": 1_000})).notice
    assert notice.count("the validation split has") == notice.count("the test split has") == 1


def test_the_digest_knows_the_files_of_a_blend(dataset: DatasetFolder, pairs: list[str]) -> None:
    configs = [
        settle(dataset),
        settle(dataset, train_data_paths=pairs),
        settle(dataset, train_data_paths=pairs, train_data_weights=[1.0, 2.0]),
        settle(dataset, train_data_paths=pairs[::-1]),
    ]
    assert len({identify_data(config)["dataset"] for config in configs}) == len(configs)


def test_what_does_not_go_together_is_one_sentence(dataset: DatasetFolder, pairs: list[str]) -> None:
    mixed = settle(dataset, train_data_paths=[pairs[0], str(dataset.path)])
    with pytest.raises(ConfigError, match="a blend is of one kind"):
        TrainingData.open(mixed)
    alone = settle(dataset, train_data_paths=pairs, data_path=None)
    with pytest.raises(ConfigError, match="nothing is left to validate on; set `valid_data_paths`"):
        TrainingData.open(alone)
