import json

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from neox_train.data import fast_encoder
from neox_train.data.encoded import EncodedBatch
from neox_train.data.fast_encoder import FastEncoder, InexactEncodingError
from neox_train.data.tokenizer import TextTokenizer, load_tokenizer
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError

TEXTS = [
    "def read(path: str) -> bytes:\n    with open(path, 'rb') as file:\n        return file.read()\n" * 3,
    "naïve café, 日本語 and 🙂 in 12345 words; don't stop" * 5,
    "a <|endoftext|> inside, <|padding|> too",
    "",
    "one",
]
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train(tokenizer: Tokenizer, *special: str) -> Tokenizer:
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS * 5, trainer)
    return tokenizer


def gpt2() -> Tokenizer:
    return train_byte_level_bpe(TEXTS * 5, vocab_size=500, eod_token="<|endoftext|>")


def neox_20b() -> Tokenizer:
    """As GPT-NeoX-20B's: NFC, two special tokens in front, runs of spaces as added tokens that are no special ones."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    train(tokenizer, "<|endoftext|>", "<|padding|>")
    tokenizer.add_tokens([AddedToken(" " * width, normalized=True) for width in range(24, 1, -1)])
    return tokenizer


def cl100k() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(CL100K), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, "<|endoftext|>")


def words() -> Tokenizer:
    """Nothing that gigatoken reads."""
    tokenizer = Tokenizer(models.WordLevel({"<|endoftext|>": 0, "one": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def load(make, path) -> TextTokenizer:
    make().save(str(path))
    return load_tokenizer(path)


@pytest.mark.parametrize("make", [gpt2, neox_20b, cl100k])
def test_ids_are_those_of_the_slow_library(tmp_path, make):
    slow = load(make, tmp_path / "tokenizer.json")
    encoded, wanted = FastEncoder(slow).encode(TEXTS), slow.encode_batch(TEXTS)
    assert [encoded[index].tolist() for index in range(len(encoded))] == wanted
    assert slow.eod_id not in encoded.ids


def test_what_gigatoken_does_not_read_is_refused(tmp_path):
    with pytest.raises(InexactEncodingError, match=r"gigatoken does not read this tokenizer \(.*WordLevel.*\)$"):
        FastEncoder(load(words, tmp_path / "tokenizer.json"))


def test_one_wrong_id_in_a_sample_is_found(tmp_path, monkeypatch):
    """The vocabulary differs in one merge that no adversarial text needs."""
    slow = load(gpt2, tmp_path / "tokenizer.json")
    content = json.loads(slow.to_json())
    place = next(index for index, merge in enumerate(content["model"]["merges"]) if "".join(merge) == "Ġw")
    content["model"]["merges"] = content["model"]["merges"][:place]
    changed = Tokenizer.from_str(json.dumps(content))
    monkeypatch.setattr(fast_encoder, "_ADVERSARIAL", ("x",))
    real = fast_encoder._load
    monkeypatch.setattr(fast_encoder, "_load", lambda _: real(TextTokenizer(changed, "<|endoftext|>", "changed")))
    with pytest.raises(InexactEncodingError, match="gives other ids"):
        FastEncoder(slow).encode(TEXTS)


def test_end_of_document_from_text_is_refused(byte_tokenizer):
    encoded = EncodedBatch(np.array([1, 2, 256], dtype=np.uint32), np.array([0, 1, 1, 3]))
    with pytest.raises(DataError, match="'third'"):
        load_tokenizer(byte_tokenizer).refuse_end_of_document(encoded, ["first", "", "third"])
