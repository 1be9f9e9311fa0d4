"""Against GPT-NeoX's blend as it walks: one set after the other weighed, sample by sample."""

import math
from pathlib import Path

import numpy as np
import pytest

from neox_train.data.blend import BlendedWindows, document_weights
from neox_train.data.mmap_files import MmapTokens
from neox_train.data.neox_blend import _BLOCK, NeoxBlendOrder, count_samples, normalise_weights, tell_other_epochs
from neox_train.data.neox_order import NeoxOrder
from neox_train.data.order import SampleOrder
from neox_train.data.windows import Windows
from neox_train.errors import ConfigError
from tests.data.pairs import write_pair

from .test_neox_order import walk

SEQ_LENGTH = 16


def make_pair(prefix: Path, items: int, seed: int, first_id: int) -> MmapTokens:
    """Items of 5 to 60 tokens, each token telling from which pair it is and where it lies."""
    ends = first_id + np.cumsum(np.random.default_rng(seed).integers(5, 60, size=items))
    begins = [first_id, *ends[:-1].tolist()]
    return MmapTokens.open(write_pair(prefix, [range(*ends_of) for ends_of in zip(begins, ends.tolist(), strict=True)]))


@pytest.fixture
def pairs(tmp_path: Path) -> list[MmapTokens]:
    return [make_pair(tmp_path / f"pair{k}", 30 + 40 * k, seed=k, first_id=100_000 * k) for k in range(3)]


def choose(weights: list[float], size: int) -> list[tuple[int, int]]:
    """Set and number of each sample, by the comparison for the greatest lag, the first on ties."""
    exact = np.array(weights, dtype=np.float64)
    exact /= np.sum(exact)
    taken = np.zeros(len(weights), dtype=np.int64)
    chosen = []
    for sample in range(size):
        best, most = 0, exact[0] * max(float(sample), 1.0) - float(taken[0])
        for which in range(1, len(weights)):
            lag = exact[which] * max(float(sample), 1.0) - float(taken[which])
            if lag > most:
                best, most = which, lag
        chosen.append((best, int(taken[best])))
        taken[best] += 1
    return chosen


def make_order(pairs: list[MmapTokens], weights: list[float], num_samples: int) -> NeoxBlendOrder:
    orders = [
        NeoxOrder(pair, range(len(pair)), num_samples=wanted, seq_length=SEQ_LENGTH, seed=7)
        for pair, wanted in zip(pairs, count_samples(weights, num_samples), strict=True)
    ]
    return NeoxBlendOrder(orders, weights)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.7, 0.2, 0.1], [3, 1, 1e-3], [0.0, 1.0, 2.0], [1 / 3, 0.1, 7]])
def test_tokens_come_as_gpt_neox_blends_them(pairs: list[MmapTokens], weights: list[float]) -> None:
    num_samples = 400
    normal = [weight / sum(weights) for weight in weights]
    # Each pair's own samples, by walking its documents; then the sets by walking the lags.
    own = [
        walk(pair, range(len(pair)), math.ceil(num_samples * weight * 1.005), SEQ_LENGTH, seed=7)
        for pair, weight in zip(pairs, normal, strict=True)
    ]
    wanted = [own[which][rank] for which, rank in choose(normal, num_samples)]

    weighed = normalise_weights(weights)
    orders = [
        NeoxOrder(pair, range(len(pair)), num_samples=asked, seq_length=SEQ_LENGTH, seed=7)
        for pair, asked in zip(pairs, count_samples(weighed, num_samples), strict=True)
    ]
    order = NeoxBlendOrder(orders, weighed)
    windows = BlendedWindows([Windows(one.stream, SEQ_LENGTH) for one in orders])
    assert len(order) == len(windows) == sum(map(len, own))
    assert windows.batch([order[sample] for sample in range(num_samples)]).tolist() == wanted


def test_a_sample_far_ahead_is_found_without_the_ones_before(pairs: list[MmapTokens]) -> None:
    weights = normalise_weights([0.25, 0.7, 0.05])
    size = 2 * _BLOCK + 100
    wanted = choose(weights, size)
    order = make_order(pairs, weights, size)
    far = [2 * _BLOCK + 99, 5, _BLOCK, _BLOCK - 1, 2 * _BLOCK, 0]
    assert [order.locate(sample) for sample in far] == [wanted[sample] for sample in far]
    assert order.locate(len(order) + 3) == wanted[3]
    taken = [sum(which == one for which, _ in wanted) for one in range(3)]
    assert order.count_taken(size) == taken


def test_weights_by_documents_are_gpt_neoxs_to_the_last_bit() -> None:
    counts, alpha = [900, 70, 31], 0.3
    shares = [count / 1001 for count in counts]
    powers = [share**alpha for share in shares]
    flattened = [power / sum(powers) for power in powers]
    weights = [q * (1 - share) for q, share in zip(flattened, shares, strict=True)]
    assert document_weights(counts, alpha) == [weight / sum(weights) for weight in weights]
    assert document_weights([900, 100], 1.0) == pytest.approx([0.5, 0.5])


def test_more_sets_than_a_byte_counts_are_refused(pairs: list[MmapTokens]) -> None:
    orders = [NeoxOrder(pairs[0], range(5), num_samples=1, seq_length=4, seed=1)] * 255
    with pytest.raises(ConfigError, match="254 is the most"):
        NeoxBlendOrder(orders, [1.0] * 255)


def test_another_length_is_told_where_it_mixes_other_epochs(tmp_path):
    prefix = write_pair(tmp_path / "pair", [list(range(1, 81))] * 10)
    tokens = MmapTokens.open(prefix)

    def order(num_samples: int) -> NeoxOrder:
        return NeoxOrder(tokens, range(len(tokens)), num_samples=num_samples, seq_length=8, seed=3)

    # 800 tokens an epoch: 99 windows of 8 in the first, 199 in two.
    same, other = order(90), order(100)
    assert [same[k] for k in range(90)] == [order(99)[k] for k in range(90)] != [other[k] for k in range(90)]
    assert tell_other_epochs(same, before=90, now=99) == tell_other_epochs(SampleOrder(9, 1), before=1, now=99) == ""
    assert "over 2 epochs in place of 1, as GPT-NeoX does" in tell_other_epochs(other, before=90, now=100)
    blend = NeoxBlendOrder([order(45), order(45)], [0.5, 0.5])
    assert tell_other_epochs(blend, before=90, now=100) == ""
    assert "over [2, 2] epochs in place of [1, 1]" in tell_other_epochs(blend, before=90, now=300)
