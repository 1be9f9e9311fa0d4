import base64
import json

import numpy as np
import pytest
from gigatoken.gigatoken_rs import BPETokenizer

from neox_train.data.cutting import can_cut
from neox_train.data.tokenizer import TextTokenizer
from neox_train.data.tokenizer_formats import (
    byte_letters,
    make_byte_tokenizer,
    make_character_tokenizer,
    read_gpt2,
    read_tiktoken,
)
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError

from .test_fast_encoder import TEXTS
from .test_tokenizer import ADVERSARIAL

END = "<|endoftext|>"
ALL = [text for text in (*TEXTS, *ADVERSARIAL) if text]


@pytest.fixture(scope="module")
def trained():
    tokenizer = train_byte_level_bpe(TEXTS * 5, vocab_size=500, eod_token=END)
    tokenizer.encode_special_tokens = True
    return tokenizer


def ids_of(tokenizer, texts=ALL) -> list[list[int]]:
    return TextTokenizer(tokenizer, END, "made").encode_batch(texts)


def test_gpt2_files_give_the_ids_of_the_tokenizer_they_came_from(trained, tmp_path):
    vocabulary, merges = map(str, trained.model.save(str(tmp_path)))
    made = read_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt", END)
    assert {vocabulary, merges} == {str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")}
    assert ids_of(made) == ids_of(trained)
    (tmp_path / "merges.txt").write_text("a b c d\n")
    with pytest.raises(DataError, match="no GPT-2 vocabulary"):
        read_gpt2(tmp_path / "vocab.json", tmp_path / "merges.txt", END)
    with pytest.raises(DataError, match=r"none\.txt cannot be read"):
        read_gpt2(tmp_path / "vocab.json", tmp_path / "none.txt", END)


@pytest.fixture
def rank_file(trained, tmp_path):
    """The trained merges as tiktoken would keep them: bytes first, then the merges in their order."""
    values = {letter: byte for byte, letter in enumerate(byte_letters())}
    tokens = [bytes([byte]) for byte in range(256)]
    for pair in json.loads(trained.to_str())["model"]["merges"]:
        tokens.append(bytes(values[letter] for letter in "".join(pair)))
    path = tmp_path / "made.tiktoken"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    return path


@pytest.mark.parametrize(("pattern", "scheme"), [("gpt2", "gpt2"), ("cl100k_base", "gpt4")])
def test_a_rank_file_gives_the_ids_of_another_implementation(rank_file, pattern, scheme):
    made = read_tiktoken(rank_file, pattern, END)
    other = BPETokenizer.from_tiktoken(rank_file, scheme)
    for text, ids in zip(ALL, ids_of(made), strict=True):
        assert np.array_equal(other.encode(text), ids), text
        assert made.decode(ids) == text
    assert made.token_to_id(END) == len(rank_file.read_text().splitlines())


def test_the_end_of_document_can_have_its_own_id(rank_file):
    assert read_tiktoken(rank_file, "gpt2", END, 900).token_to_id(END) == 900
    with pytest.raises(DataError, match="id 300 is taken"):
        read_tiktoken(rank_file, "gpt2", END, 300)


@pytest.mark.parametrize("content", ["", "AA== 0\n", "not base64! 0\n", "AA==\n"])
def test_a_file_that_is_no_rank_file_is_one_sentence(tmp_path, content):
    (tmp_path / "bad.tiktoken").write_text(content)
    with pytest.raises(DataError, match=r"bad\.tiktoken") as caught:
        read_tiktoken(tmp_path / "bad.tiktoken", "gpt2", END)
    assert "\n" not in str(caught.value)


def test_a_pattern_that_is_none_is_one_sentence(rank_file):
    with pytest.raises(DataError, match="no regular expression"):
        read_tiktoken(rank_file, "(", END)


def test_bytes_are_their_own_ids():
    made = make_byte_tokenizer(END)
    assert made.token_to_id(END) == 256
    assert ids_of(made) == [list(text.encode()) for text in ALL]


def test_characters_have_gpt_neoxs_ids():
    made = make_character_tokenizer(END)
    assert made.token_to_id(END) == 0
    assert ids_of(made) == [[byte or 256 for byte in text.encode()] for text in ALL]
    assert any(0 in text.encode() for text in ALL)
    tokenizer = TextTokenizer(made, END, "made")
    assert [tokenizer.decode(ids) for ids in ids_of(made)] == ALL
    assert can_cut(tokenizer.to_json())
