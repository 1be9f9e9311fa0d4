import pytest

from neox_train.data import splits as splits_module
from neox_train.data.splits import KeyCollection, Splitter, hash_pieces

SHARES = {"train": 0.96, "validation": 0.02, "test": 0.02}


def divide(texts: list[str], shares: dict[str, float] = SHARES, seed: int = 1234) -> dict[str, set[str]]:
    keys = KeyCollection(seed)
    for text in texts:
        keys.add(text)
    splitter = Splitter(shares, seed, keys.keys())
    divided: dict[str, set[str]] = {name: set() for name in shares}
    for text in texts:
        divided[splitter.split_of([text])].add(text)
    return divided


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1, 0, 0]), (2, [2, 0, 0]), (3, [1, 1, 1]), (4, [2, 1, 1]), (50, [48, 1, 1]), (600, [576, 12, 12])],
)
def test_a_small_corpus_has_exact_shares_and_no_empty_split(count, sizes):
    texts = [f"document {index}" for index in range(count)]
    assert [len(part) for part in divide(texts).values()] == sizes


def test_the_split_is_decided_by_content_and_seed_not_by_place():
    texts = [f"document {index}" for index in range(300)]
    assert divide(texts) == divide(texts[::-1]) != divide(texts, seed=1)
    assert hash_pieces(["na", "ïve"], 1234) == 0xBE6CC543850CD444


def test_equal_documents_share_a_split():
    texts = [f"document {index % 20}" for index in range(400)]
    parts = divide(texts)
    assert sum(len(part) for part in parts.values()) == 20
    assert [len(part) for part in divide(["same"] * 10).values()] == [1, 0, 0]


def test_growing_a_large_corpus_moves_no_document(monkeypatch):
    monkeypatch.setattr(splits_module, "SMALL_CORPUS_DOCUMENTS", 1000)
    texts = [f"document {index}" for index in range(40_000)]
    half, whole = divide(texts[:20_000]), divide(texts)
    for name, part in half.items():
        assert part == whole[name] & set(texts[:20_000])
        assert abs(len(whole[name]) / 40_000 - SHARES[name]) < 0.004


def test_a_split_without_share_gets_nothing():
    parts = divide([f"document {index}" for index in range(100)], {"train": 0.9, "validation": 0.0, "test": 0.1})
    assert [len(part) for part in parts.values()] == [90, 0, 10]
