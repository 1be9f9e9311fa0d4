import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors, trainers

from neox_train.data.tokenizer import load_tokenizer
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError

ADVERSARIAL = [
    "",
    "plain words",
    "  leading\tand trailing  \r\n",
    "🙂🏳️‍🌈 é é 日本語",
    "\x00\x01\x7f\u0085\u2028\ufeff",
    "x" * 10_000,
    "<|endoftext|>",
    "a<|padding|>b <|endoftext|>",
    "\U0010ffff",
]


def test_a_trained_tokenizer_gives_every_text_back():
    tokenizer = train_byte_level_bpe(["some text to learn pairs from"] * 9, vocab_size=300, eod_token="<|endoftext|>")
    assert tokenizer.token_to_id("<|endoftext|>") == 0
    assert tokenizer.get_vocab_size() <= 300


@pytest.mark.parametrize("text", ADVERSARIAL)
def test_text_stays_text(byte_tokenizer, text):
    tokenizer = load_tokenizer(byte_tokenizer)
    (ids,) = tokenizer.encode_batch([text])
    assert tokenizer.eod_id not in ids and len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text


def neox_20b_like() -> Tokenizer:
    """The shape of NeoX-20B's tokenizer.json: special tokens first, runs of spaces added, a post-processor."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>", "<|padding|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["for each word and word"], trainer)
    tokenizer.add_tokens([AddedToken(" " * length, special=False, normalized=True) for length in range(24, 1, -1)])
    return tokenizer


def test_added_tokens_that_are_text_stay_in_use(tmp_path):
    made = neox_20b_like()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.eod_id == 0 and tokenizer.vocab_size == made.get_vocab_size()
    (ids,) = tokenizer.encode_batch(["word        word <|padding|>"])
    assert made.token_to_id(" " * 8) in ids or made.token_to_id(" " * 7) in ids
    assert made.token_to_id("<|padding|>") not in ids


def test_settings_that_change_text_are_switched_off(tmp_path):
    made = neox_20b_like()
    made.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|endoftext|>", special_tokens=[("<|endoftext|>", 0)]
    )
    made.enable_truncation(max_length=4)
    made.enable_padding(pad_id=1, pad_token="<|padding|>")
    made.save(str(tmp_path / "tokenizer.json"))
    short, long = load_tokenizer(tmp_path / "tokenizer.json").encode_batch(["a", "abcdefgh"])
    assert len(short) == 1 and len(long) == 8


def test_an_added_token_not_marked_special_is_no_trap(tmp_path):
    made = Tokenizer(
        models.BPE({"a": 0, "<": 1, "|": 2, ">": 3} | {c: 4 + i for i, c in enumerate("endoftxt"[:7])}, [])
    )
    made.add_tokens(["<|endoftext|>"])
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    (ids,) = tokenizer.encode_batch(["a<|endoftext|>a"])
    assert tokenizer.eod_id not in ids and len(ids) == 15


def test_a_word_level_vocabulary_with_the_token_inside_is_refused_when_it_occurs(tmp_path):
    made = Tokenizer(models.WordLevel({"<|endoftext|>": 0, "a": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path / "tokenizer.json")
    assert tokenizer.encode_batch(["a b"]) == [[1, 2]]
    with pytest.raises(DataError, match="end-of-document token for the text"):
        tokenizer.encode_batch(["a <|endoftext|> b"])


def test_gaps_between_ids_count(tmp_path):
    made = Tokenizer(models.WordLevel({"<|endoftext|>": 0, "a": 9}, unk_token="a"))
    made.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path / "tokenizer.json").vocab_size == 10


def test_unusable_files_are_one_sentence(tmp_path, byte_tokenizer):
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match=r"bad\.json is no tokenizer\.json"):
        load_tokenizer(tmp_path / "bad.json")
    with pytest.raises(DataError, match=r"none\.json cannot be read \(No such file"):
        load_tokenizer(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"has no token </s>; set `end_of_document` .*<\|endoftext\|>"):
        load_tokenizer(byte_tokenizer, "</s>")
