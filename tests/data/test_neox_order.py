"""Against the algorithm of GPT-NeoX as it walks: document by document, sample by sample."""

import numpy as np
import pytest

from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_order import ItemStream, NeoxOrder, split_items
from neox_train.data.windows import Windows
from neox_train.errors import ConfigError, DataError
from tests.data.pairs import write_pair


@pytest.fixture
def tokens(tmp_path) -> MmapTokens:
    """40 items of 0 to 60 tokens, each token telling where it lies."""
    sizes = np.random.default_rng(3).integers(0, 60, size=40)
    ends = np.cumsum(sizes)
    items = [list(range(end - size, end)) for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]
    return MmapTokens.open(write_pair(tmp_path / "pair", items))


def walk(tokens: MmapTokens, items: range, num_samples: int, seq_length: int, seed: int) -> list[list[int]]:
    """Every sample in the order of training, by walking: epochs counted up, then documents consumed one by one."""
    per_epoch = sum(len(tokens[item]) for item in items)
    epochs = 1
    while (epochs * per_epoch - 1) // seq_length < num_samples:
        epochs += 1
    random = np.random.RandomState(seed)
    documents = np.array([item for _ in range(epochs) for item in items], dtype=np.int32)
    random.shuffle(documents)
    places = [(0, 0)]
    document, offset = 0, 0
    for _ in range((epochs * per_epoch - 1) // seq_length):
        remaining = seq_length + 1
        while remaining:
            left = len(tokens[documents[document]]) - offset
            remaining -= left
            if remaining <= 0:
                offset += remaining + left - 1
                remaining = 0
            else:
                document, offset = document + 1, 0
        places.append((document, offset))
    order = np.arange(len(places) - 1, dtype=np.uint32)
    random.shuffle(order)
    return [join(tokens, documents, places[index], places[index + 1]) for index in order]


def join(tokens: MmapTokens, documents: np.ndarray, first: tuple[int, int], last: tuple[int, int]) -> list[int]:
    if first[0] == last[0]:
        return tokens[documents[first[0]]][first[1] : last[1] + 1].tolist()
    middle = [token for place in range(first[0] + 1, last[0]) for token in tokens[documents[place]].tolist()]
    start, end = tokens[documents[first[0]]][first[1] :], tokens[documents[last[0]]][: last[1] + 1]
    return [*start.tolist(), *middle, *end.tolist()]


@pytest.mark.parametrize("num_samples", [1, 30, 31, 500])
@pytest.mark.parametrize("seq_length", [1, 7, 32, 700])
@pytest.mark.parametrize("items", [range(40), range(3, 21)])
def test_samples_come_as_gpt_neox_walks_them(tokens, items, seq_length, num_samples):
    order = NeoxOrder(tokens, items, num_samples=num_samples, seq_length=seq_length, seed=1234)
    wanted = walk(tokens, items, num_samples, seq_length, seed=1234)
    windows = Windows(order.stream, seq_length)
    assert len(order) == len(windows) == len(wanted) >= num_samples
    assert windows.batch([order[sample] for sample in range(len(order))]).tolist() == wanted
    assert order[len(order) + 5] == order[5]


def test_numpys_generator_is_still_the_one_of_old():
    """RandomState's stream is frozen by NumPy's policy; were it not, runs could not be continued."""
    documents, samples = np.arange(10, dtype=np.int32), np.arange(8, dtype=np.uint32)
    random = np.random.RandomState(1234)
    random.shuffle(documents)
    random.shuffle(samples)
    assert documents.tolist() == [7, 2, 9, 1, 0, 8, 4, 5, 6, 3]
    assert sorted(samples.tolist()) == list(range(8))


@pytest.mark.parametrize(
    ("split", "count", "bounds"),
    [
        ("969, 30, 1", 10, [0, 10, 10, 10]),
        ("969,30,1", 100, [0, 97, 100, 100]),
        ("969,30,1", 2_877_800, [0, 2_788_588, 2_874_922, 2_877_800]),
        ("949/50/1", 1000, [0, 949, 999, 1000]),
        ("1", 7, [0, 7, 7, 7]),
        ("1,1", 5, [0, 3, 5, 5]),
    ],
)
def test_splits_are_cut_as_gpt_neox_cuts_them(split, count, bounds):
    ranges = split_items(split, count)
    assert [ranges["train"].start, *(items.stop for items in ranges.values())] == bounds


@pytest.mark.parametrize("split", ["a,b", "0,0,0", "-1,2", ""])
def test_a_split_that_is_none_is_one_sentence(split):
    with pytest.raises(ConfigError, match="split is"):
        split_items(split, 10)


def test_too_few_tokens_are_one_sentence(tokens):
    with pytest.raises(DataError, match="too few"):
        NeoxOrder(tokens, range(5, 5), num_samples=1, seq_length=4, seed=1)
    assert ItemStream(tokens, np.arange(0)).num_tokens == 0
