"""Characters that a tokenizer has no token for are refused or counted, never left out without a word."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from neox_train.data import limits, long_line
from neox_train.data.coverage import Coverage
from neox_train.data.tokenize import tokenize_dataset
from neox_train.data.tokenizer import TextTokenizer
from neox_train.errors import DataError

from .conftest import read_texts

LETTERS = {letter: index for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz ")}


def make(vocabulary=LETTERS, *, model=None, before=None, normalizer=None, added=()) -> Tokenizer:
    tokenizer = Tokenizer(model or models.BPE(dict(vocabulary), []))
    tokenizer.decoder = decoders.Fuse()
    if before is not None:
        tokenizer.pre_tokenizer = before
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_tokens(list(added))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def alphabet(*without: str) -> dict[str, int]:
    letters = sorted(set(pre_tokenizers.ByteLevel.alphabet()) - set(without))
    return {letter: index for index, letter in enumerate(letters)}


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
AFTER_SPLIT = pre_tokenizers.Sequence([pre_tokenizers.Digits(), BYTE_LEVEL])


@pytest.mark.parametrize(
    "tokenizer",
    [
        make(alphabet(), before=BYTE_LEVEL),
        make(alphabet(), before=AFTER_SPLIT),
        make(model=models.BPE({**LETTERS, "<unk>": 90}, [], unk_token="<unk>")),
        make(model=models.BPE({f"<0x{byte:02X}>": byte for byte in range(256)}, [], byte_fallback=True)),
        make(model=models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>")),
        make(model=models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0)),
    ],
    ids=["byte level", "after a split", "unknown token", "byte fallback", "words", "unigram"],
)
def test_what_reads_every_text_is_not_looked_at(tokenizer):
    assert not Coverage(tokenizer.to_str()).can_lose


@pytest.mark.parametrize(
    ("tokenizer", "text", "lost"),
    [
        (make(), "néa b9\n", {"\n": 1, "9": 1, "é": 1}),
        (make(before=pre_tokenizers.Whitespace()), "a\n b", {}),
        (make({**LETTERS, "é": 40}, normalizer=normalizers.NFC()), "e\u0301", {}),
        (make({**LETTERS, "\u0301": 40}, normalizer=normalizers.NFC()), "e\u0301", {"é": 1}),
        (make(normalizer=normalizers.Lowercase()), "ABÉ", {"é": 1}),
        (make(model=models.BPE(alphabet(), [], byte_fallback=True)), "a日", {"日": 1}),
        (make(added=["<日>"]), "a<日>b", {}),
        (make(added=[AddedToken("<日>", special=True)]), "<日>", {"<": 1, ">": 1, "日": 1}),
    ],
)
def test_what_is_found_lost_is_what_the_library_leaves_out(tokenizer, text, lost):
    assert Coverage(tokenizer.to_str()).find_lost(text) == lost
    ids = TextTokenizer(tokenizer, "<|endoftext|>", "it").encode_batch([text, *lost])
    read = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
    kept = "".join(character for character in read if character not in lost)
    assert ids[0] == (TextTokenizer(tokenizer, "<|endoftext|>", "it").encode_batch([kept])[0] if lost else ids[0])
    assert ids[0] or not kept
    if tokenizer.pre_tokenizer is None:
        assert all(not found for found in ids[1:])


def test_a_character_of_which_one_byte_has_no_token_is_lost():
    coverage = Coverage(make(alphabet("Ã"), before=BYTE_LEVEL).to_str())
    assert coverage.find_lost("aé日é") == {"é": 2}


@pytest.mark.parametrize("is_long", [False, True])
def test_a_document_that_would_lose_text_is_refused_or_left_out(tmp_path, make_spec, folder, monkeypatch, is_long):
    make().save(str(tmp_path / "letters.json"))
    texts = ["all known", "a " * 40 + "näh, ja", "known too"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    if is_long:
        monkeypatch.setattr(limits, "LONG_DOCUMENT_BYTES", 70)
        monkeypatch.setattr(long_line, "_KEPT_STRING_BYTES", 10)
    spec = make_spec(tmp_path / "a.jsonl", tokenizer=tmp_path / "letters.json")
    sentence = (
        r"a\.jsonl line 2: .*letters\.json has neither a token for ',' \(U\+002C\), 'ä' \(U\+00E4\) nor an unknown "
        r"token, and leaves out 2 of 87 characters"
    )
    with pytest.raises(DataError, match=sentence + r".* or set `source\.on_error: skip`$"):
        tokenize_dataset(spec, folder, report=lambda line: None)
    spec = make_spec(tmp_path / "a.jsonl", tokenizer=tmp_path / "letters.json", on_error="skip")
    lines: list[str] = []
    manifest = tokenize_dataset(spec, folder, report=lines.append)
    assert manifest.dropped.skipped.count == 1 and read_texts(folder) == ["all known", "known too"]
    assert "1 unreadable, the first" in lines[-1] and "an unknown token" in lines[-1]


def test_a_corpus_of_nothing_but_unknown_text_is_refused(tmp_path, make_spec, folder):
    make().save(str(tmp_path / "letters.json"))
    (tmp_path / "a.txt").write_text("äöü")
    spec = make_spec(tmp_path / "a.txt", tokenizer=tmp_path / "letters.json", on_error="skip")
    with pytest.raises(DataError, match="no document is left for the train split"):
        tokenize_dataset(spec, folder, report=lambda line: None)


def test_a_model_that_raises_for_an_unknown_word_is_one_sentence(tmp_path, make_spec, folder):
    make(model=models.WordLevel({"a": 0})).save(str(tmp_path / "words.json"))
    (tmp_path / "a.txt").write_text("b")
    with pytest.raises(
        DataError, match=r"words\.json does not encode the corpus \(.*; give its model an unknown token"
    ):
        tokenize_dataset(make_spec(tmp_path / "a.txt", tokenizer=tmp_path / "words.json"), folder, report=print)
