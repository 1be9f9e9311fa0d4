from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neox_train.config.layout import DatasetFolder, RunFolder
from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import identify_data
from neox_train.data.mmap_files import MmapTokens, export_mmap
from neox_train.data.neox_order import NeoxOrder, split_items
from neox_train.data.store import TokenStore
from neox_train.errors import ConfigError, DataError
from neox_train.training.dataset import TrainingData
from neox_train.training.distributed import RankContext
from tests.training.synthetic import VOCAB_SIZE, resolve, write_dataset


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[DatasetFolder]:
    """Two datasets of one tokenizer, the second of a quarter of the tokens."""
    folder = tmp_path_factory.mktemp("blend")
    return [
        write_dataset(folder / name, train_tokens=size, validation_tokens=600)
        for name, size in (("large", 6_000), ("small", 1_500))
    ]


def settle(two: list[DatasetFolder], **changes: Any) -> NeoxConfig:
    return resolve(two[0], RunFolder(Path("unused")), **changes)


def blend(two: list[DatasetFolder], **changes: Any) -> NeoxConfig:
    return settle(two, train_data_paths=[str(dataset.path) for dataset in two], **changes)


def read(config: NeoxConfig, alone: RankContext, batches: int, consumed: int = 0) -> np.ndarray:
    return np.concatenate(list(islice(TrainingData.open(config).train_batches(config, alone, consumed), batches)))


def test_a_blend_draws_by_weight_and_says_the_shares(two: list[DatasetFolder], alone: RankContext) -> None:
    config = blend(two, train_data_weights=[0.25, 0.75])
    data = TrainingData.open(config)
    large = (TokenStore.open(two[0].path, "train").num_tokens - 1) // config.seq_length
    drawn = sum(data.order[sample] < large for sample in range(1000))
    assert abs(drawn - 250) <= 1
    assert f"{two[0].path} 25.0000%, {two[1].path} 75.0000%" in data.notice


def test_a_resumed_blend_goes_on_and_another_length_changes_nothing(
    two: list[DatasetFolder], alone: RankContext
) -> None:
    config = blend(two, train_data_weights=[1.0, 2.0])
    longer = blend(two, train_data_weights=[1.0, 2.0], train_iters=10 * (config.train_iters or 1))
    size = config.train_micro_batch_size_per_gpu
    whole = read(config, alone, 12)
    assert np.array_equal(read(longer, alone, 12), whole)
    assert np.array_equal(read(longer, alone, 7, consumed=5 * size), whole[5 * size :])


def test_without_weights_the_windows_count_and_documents_or_temperature_weigh_on_request(
    two: list[DatasetFolder],
) -> None:
    def shares(**changes: Any) -> list[float]:
        return TrainingData.open(blend(two, **changes)).order.shares  # type: ignore[attr-defined]

    sizes = [(TokenStore.open(dataset.path, "train").num_tokens - 1) // settle(two).seq_length for dataset in two]
    assert shares() == pytest.approx([size / sum(sizes) for size in sizes], abs=1e-4)
    assert shares(weight_by_num_documents=True, weighted_sampler_alpha=1.0) == pytest.approx([0.5, 0.5], abs=1e-4)
    assert shares(train_data_weights=[9.0, 1.0], blend_temperature=2.0) == pytest.approx([0.75, 0.25], abs=1e-4)


def test_the_digest_knows_the_blend(two: list[DatasetFolder]) -> None:
    configs = [
        settle(two),
        blend(two),
        blend(two, train_data_weights=[1.0, 1.0]),
        blend(two, train_data_weights=[1.0, 2.0]),
        blend(two, train_data_weights=[1.0, 2.0], blend_temperature=2.0),
    ]
    assert len({identify_data(config)["dataset"] for config in configs}) == len(configs)
    assert len({identify_data(config)["tokenizer"] for config in configs}) == 1


def test_a_blend_of_two_tokenizers_is_refused(two: list[DatasetFolder], tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "other", train_tokens=500)
    manifest = other.manifest.read_text()
    digest = TrainingData.open(settle(two)).digests["tokenizer"]
    other.manifest.write_text(manifest.replace(digest, "0" * 64))
    config = settle(two, train_data_paths=[str(two[0].path), str(other.path)])
    with pytest.raises(ConfigError, match="was made with another tokenizer"):
        TrainingData.open(config)


def test_files_of_gpt_neox_train_in_its_order(two: list[DatasetFolder], alone: RankContext, tmp_path: Path) -> None:
    export_mmap(TokenStore.open(two[0].path, "train"), tmp_path / "tokens", vocab_size=VOCAB_SIZE)
    config = settle(two, data_path=str(tmp_path / "tokens"), split="90,10,0", train_iters=50)
    tokens = MmapTokens.open(tmp_path / "tokens")
    items = split_items("90,10,0", len(tokens))
    order = NeoxOrder(
        tokens,
        items["train"],
        num_samples=50 * config.train_batch_size,
        seq_length=config.seq_length,
        seed=config.seed,
    )
    size = config.train_micro_batch_size_per_gpu
    wanted = [
        order.stream.read(order[sample] * config.seq_length, (order[sample] + 1) * config.seq_length + 1)
        for sample in range(3 * size, 5 * size)
    ]
    assert np.array_equal(read(config, alone, 2, consumed=3 * size), wanted)

    data = TrainingData.open(config)
    first = next(iter(data.validation_batches(config.model_copy(update={"eval_iters": 1}), alone)))
    assert (
        first[0].tolist()[: len(tokens[items["validation"].start])]
        == tokens[items["validation"].start].tolist()[: config.seq_length + 1]
    )
    assert data.vocab_size == VOCAB_SIZE and data.digests["tokenizer"] == ""
    assert data.digests != TrainingData.open(config.model_copy(update={"split": "80,20,0"})).digests
    with pytest.raises(ConfigError, match=r"`vocab_size` is 7, the dataset .* token ids and decides; remove the key"):
        TrainingData.open(settle(two).model_copy(update={"vocab_size": 7}))
    with pytest.raises(DataError, match=f"tokens.bin has the token id .*, and the tokenizer has {VOCAB_SIZE // 2} ids"):
        TrainingData.open(config.model_copy(update={"vocab_size": VOCAB_SIZE // 2}))
    with pytest.raises(ConfigError, match="do not say how many token ids"):
        TrainingData.open(config.model_copy(update={"vocab_size": None}))


def validation_rows(config: NeoxConfig, alone: RankContext) -> np.ndarray:
    return np.concatenate(list(TrainingData.open(config).validation_batches(config, alone)))


def test_validation_comes_from_the_sets_that_are_named(
    two: list[DatasetFolder], alone: RankContext, tmp_path: Path
) -> None:
    paths = [str(dataset.path) for dataset in two]
    config = settle(two, valid_data_paths=paths[1:], eval_iters=1)
    store = TokenStore.open(two[1].path, "validation")
    assert validation_rows(config, alone)[0].tolist() == store.read(0, config.seq_length + 1).tolist()
    assert identify_data(config) == identify_data(settle(two))
    data = TrainingData.open(settle(two, valid_data_paths=paths, valid_data_weights=[1.0, 3.0]))
    assert f"blend of the validation samples: {paths[0]} 25.0000%, {paths[1]} 75.0000%" in data.notice

    whole = write_dataset(tmp_path / "whole", train_tokens=900, validation_tokens=0)
    config = settle(two, valid_data_paths=[str(whole.path)], eval_iters=1)
    store = TokenStore.open(whole.path, "train")
    assert validation_rows(config, alone)[0].tolist() == store.read(0, config.seq_length + 1).tolist()
    with pytest.raises(ConfigError, match="has no validation split, and its train split is trained on"):
        TrainingData.open(settle([whole], valid_data_paths=[str(whole.path)]))
    with pytest.raises(ConfigError, match="shorter than one window of `seq_length`"):
        TrainingData.open(settle(two, valid_data_paths=paths, seq_length=1_000, max_position_embeddings=1_000))
