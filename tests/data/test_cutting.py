import json
import random
import unicodedata

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from neox_train.data import limits
from neox_train.data.coverage import Coverage
from neox_train.data.cutting import _PATTERNS, LETTERS, can_cut, cut_document
from neox_train.data.documents import Document
from neox_train.data.long_encoding import LongEncoder
from neox_train.data.tokenizer import TextTokenizer, load_tokenizer
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError

END = "<|endoftext|>"
WORDS = ["a", "the", "The", "don't", "I'LL", "1234", "7", "…", "--", "naïve", "日本", "語", "e\u0301", "ﬁ", "🙂", "ß"]
GAPS = [" ", "  ", "\n", "\n\n", " \n ", "\r\n", "\t", "\u00a0", "", "", "   \t \n"]


def random_text(seed: int, words: int = 400) -> str:
    choice = random.Random(seed)
    return "".join(choice.choice(WORDS) + choice.choice(GAPS) for _ in range(words))


def make_tokenizer(pattern: str | None, **parts) -> Tokenizer:
    tokenizer = train_byte_level_bpe([random_text(seed) for seed in range(5)], vocab_size=500, eod_token=END)
    if pattern is not None:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LONG_DOCUMENT_BYTES", 1)
    monkeypatch.setattr(limits, "PIECE_CHARACTERS", 9)
    monkeypatch.setattr(limits, "MAX_UNCUT_BYTES", 200)


@pytest.mark.parametrize("pattern", [None, *sorted(_PATTERNS)])
@pytest.mark.parametrize("normalizer", [None, normalizers.NFC(), normalizers.NFKD()])
def test_pieces_have_the_ids_of_the_whole(small, pattern, normalizer):
    tokenizer = make_tokenizer(pattern)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    # GPT-NeoX-20B keeps runs of spaces as added tokens.
    tokenizer.add_tokens([AddedToken(" " * size, normalized=False) for size in (3, 2)])
    assert can_cut(tokenizer.to_str())
    encoder = TextTokenizer(tokenizer, END, "made")
    for seed in range(25):
        text = random_text(seed)
        pieces = list(cut_document(Document(text, 0, "a.txt")))
        assert "".join(pieces) == text and len(pieces) > 40
        (whole,) = encoder.encode_batch([text])
        assert [token for ids in encoder.encode_batch(pieces) for token in ids] == whole


@pytest.mark.parametrize(
    "change",
    [
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)},
        {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            )
        },
        {"pre_tokenizer": pre_tokenizers.Split(Regex(r"\w+ \w+"), "isolated")},
        {"pre_tokenizer": pre_tokenizers.Metaspace()},
        {"normalizer": normalizers.Strip()},
        {"normalizer": normalizers.Sequence([normalizers.NFC(), normalizers.Replace(" ", "")])},
        {"model": models.WordLevel({"a": 0}, unk_token="a")},
        {"model": models.BPE({"a": 0}, [], dropout=0.1)},
    ],
)
def test_a_tokenizer_without_proof_is_not_cut(change):
    assert not can_cut(make_tokenizer(None, **change).to_str())


@pytest.mark.parametrize("token", [AddedToken("an apple"), AddedToken("x", rstrip=True), AddedToken("y", lstrip=True)])
def test_added_tokens_that_reach_over_a_place_are_no_proof(token):
    tokenizer = make_tokenizer(None)
    tokenizer.add_tokens([token])
    assert not can_cut(tokenizer.to_str())


def test_the_letters_are_letters():
    ranges = [part for part in LETTERS.replace("-", "")]
    for first, last in zip(ranges[::2], ranges[1::2], strict=True):
        named = [chr(code) for code in range(ord(first), ord(last) + 1)]
        assert all(unicodedata.category(letter).startswith("L") for letter in named), first
        assert all(unicodedata.ucd_3_2_0.category(letter).startswith("L") for letter in named), first


def test_text_without_a_place_is_refused(small):
    assert list(cut_document(Document("日。" * 100, 600, "a.txt"))) == ["日。" * 100]
    with pytest.raises(DataError, match=r"a\.txt: more than 200 characters without a space .* split the document"):
        list(cut_document(Document("word " + "日。" * 101, 611, "a.txt")))


def test_an_unproved_tokenizer_encodes_up_to_the_limit_whole(small, byte_tokenizer, tmp_path):
    content = json.loads(byte_tokenizer.read_text())
    content["pre_tokenizer"]["add_prefix_space"] = True
    (tmp_path / "other.json").write_text(json.dumps(content))
    tokenizer = load_tokenizer(tmp_path / "other.json")
    encoder = LongEncoder(tokenizer, tokenizer.encode, Coverage(tokenizer.to_json()))
    (ids,) = encoder.encode(Document("some words", 10, "a.txt"))
    assert ids.tolist() == tokenizer.encode_batch(["some words"])[0]
    with pytest.raises(DataError, match=r"a\.txt: the document has 201 bytes, and .*other\.json is not known to start"):
        list(encoder.encode(Document("x" * 201, 201, "a.txt")))


def test_a_library_that_cuts_otherwise_is_found_out(small, byte_tokenizer, tmp_path):
    tokenizer = load_tokenizer(byte_tokenizer)
    encoder = LongEncoder(tokenizer, tokenizer.encode, Coverage(tokenizer.to_json()))
    content = json.loads(byte_tokenizer.read_text())
    content["pre_tokenizer"]["add_prefix_space"] = True
    (tmp_path / "other.json").write_text(json.dumps(content))
    encoder._can_cut = True
    encoder._tokenizer = load_tokenizer(tmp_path / "other.json")
    with pytest.raises(DataError, match=r"a\.txt: .*other\.json reads ' and.*' otherwise when it is cut"):
        list(encoder.encode(Document("awesome words and\nlines", 22, "a.txt")))
