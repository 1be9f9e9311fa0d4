from collections import Counter

import numpy as np
import pytest

from neox_train.config.layout import DatasetFolder
from neox_train.data.blend import ROUND, BlendedWindows, BlendOrder, FixedBlend, document_weights, temper
from neox_train.data.loader import iterate_batches
from neox_train.data.store import TokenStore
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.windows import Windows
from neox_train.errors import DataError


def sets_of(order: BlendOrder, sizes: list[int], samples) -> list[int]:
    starts = np.cumsum(sizes)
    return [int(np.searchsorted(starts, order[sample], side="right")) for sample in samples]


@pytest.fixture
def public_case(tmp_path, cases, make_spec):
    """Windows of 64 tokens over the small (3 documents) and the large (60) corpus."""
    sets = []
    for name in ("10-small", "10-large"):
        folder = DatasetFolder(tmp_path / name)
        tokenize_dataset(make_spec(cases / f"{name}.jsonl"), folder, report=lambda line: None)
        sets.append(Windows(TokenStore.open(folder.path, "train"), 64))
    return sets


def test_a_small_set_of_large_weight_is_drawn_by_its_weight_and_evenly(public_case):
    order = BlendOrder([len(windows) for windows in public_case], [0.9, 0.1], seed=1)
    drawn = [order[sample] for sample in range(200)]
    small = Counter(window for window in drawn if window < len(public_case[0]))
    assert abs(sum(small.values()) - 180) <= 1
    assert len(small) == len(public_case[0]) and max(small.values()) - min(small.values()) <= 1
    rows = BlendedWindows(public_case).batch(drawn)
    assert np.array_equal(rows[0], public_case[0][drawn[0]])
    assert order.shares == pytest.approx([0.9, 0.1], abs=1 / ROUND)


def test_a_set_of_weight_0_is_never_drawn(public_case):
    sizes = [len(windows) for windows in public_case]
    order = BlendOrder(sizes, [1, 0], seed=1)
    assert order.shares == [1, 0] and set(sets_of(order, sizes, range(3000))) == {0}
    assert set(sets_of(BlendOrder([5, 0], [1, 0], seed=1), [5, 0], range(100))) == {0}
    with pytest.raises(DataError, match="set 2 of the blend is shorter"):
        BlendOrder([5, 0], [1, 0.1], seed=1)


@pytest.mark.parametrize("weights", [[1, 1], [0.9, 0.1], [5, 3, 2], [0.5, 0.2, 0.15, 0.1, 0.05], [1e-9, 1, 1, 1]])
def test_every_stretch_of_a_training_holds_the_shares(weights):
    sizes = [7 + 3 * place for place in range(len(weights))]
    order = BlendOrder(sizes, weights, seed=3)
    assert sum(order.shares) == 1 and all(share > 0 for share in order.shares)
    drawn = np.eye(len(weights))[sets_of(order, sizes, range(2 * ROUND - 700, 2 * ROUND + 700))]
    counts = np.cumsum(drawn, axis=0)
    due = np.outer(np.arange(1, 1401), order.shares)
    assert np.abs(counts - due).max() <= len(weights)


def test_each_set_goes_through_its_own_epochs_across_rounds():
    sizes = [11, 1000]
    order = BlendOrder(sizes, [0.25, 0.75], seed=5)
    first = [order[sample] for sample in range(ROUND - 2000, ROUND + 2000)]
    small = [window for window in (order[sample] for sample in range(9000)) if window < 11]
    epochs = [small[start : start + 11] for start in range(0, len(small) - 11, 11)]
    assert all(sorted(epoch) == list(range(11)) for epoch in epochs) and len({tuple(e) for e in epochs}) > 100
    assert first == [order[sample] for sample in range(ROUND - 2000, ROUND + 2000)]


@pytest.mark.parametrize(("micro_batch", "dp", "gas"), [(12, 1, 1), (1, 3, 4), (2, 2, 3), (3, 4, 1)])
def test_the_samples_are_the_same_for_every_layout_and_after_a_resume(public_case, micro_batch, dp, gas):
    order = BlendOrder([len(windows) for windows in public_case], [0.7, 0.3], seed=1)
    windows = BlendedWindows(public_case)
    ranks = [
        iterate_batches(
            windows,
            order,
            micro_batch=micro_batch,
            dp_rank=rank,
            dp_size=dp,
            gradient_accumulation_steps=gas,
            consumed_samples=36,
        )
        for rank in range(dp)
    ]
    rows = [next(rank) for _ in range(3 * gas) for rank in ranks]
    assert np.array_equal(np.concatenate(rows), windows.batch([order[sample] for sample in range(36, 72)]))


def test_weights_by_documents_are_gpt_neoxs():
    assert document_weights([900, 100], 1.0) == pytest.approx([0.5, 0.5])
    # q = (0.65908, 0.34092), times 1 - p = (0.1, 0.9)
    assert document_weights([900, 100], 0.3) == pytest.approx([0.17682, 0.82318], abs=1e-5)
    assert document_weights([5], 0.3) == [1.0]


def test_temperature_flattens_and_keeps_zero():
    assert temper([8, 2, 0], 1) == [0.8, 0.2, 0]
    assert temper([9, 1, 0], 2) == [0.75, 0.25, 0]
    hot = temper([9, 1], 1e6)
    assert hot == pytest.approx([0.5, 0.5], abs=1e-5)


def test_the_blend_is_fixed_for_ever():
    order = BlendOrder([50, 80], [0.6, 0.4], seed=1234)
    samples = (0, 1, 2, 3, ROUND, 10**9)
    assert [order[sample] for sample in samples] == [49, 122, 47, 113, 40, 57]


def test_a_fixed_blend_takes_each_set_in_order_and_no_window_twice(public_case):
    sets = public_case
    for weights in ([0.7, 0.3], [1.0, 1.0], [0.0, 1.0], [1e-9, 1.0]):
        blend = FixedBlend(sets, weights)
        rows = blend.batch(range(len(blend)))
        owners = [
            next(
                place
                for place, windows in enumerate(sets)
                if any(np.array_equal(row, windows[i]) for i in range(len(windows)))
            )
            for row in rows
        ]
        for place, windows in enumerate(sets):
            own = rows[[owner == place for owner in owners]]
            assert np.array_equal(own, windows.batch(range(len(own))))
            assert abs(len(own) - blend.shares[place] * len(rows)) <= 1
        counts = [owners.count(place) for place in range(len(sets))]
        assert any(count == len(windows) for count, windows in zip(counts, sets, strict=True))
