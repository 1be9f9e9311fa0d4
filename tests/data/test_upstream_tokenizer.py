"""Each of GPT-NeoX's tokenizer types on small files of its own format."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from neox_train.config.schema import NeoxConfig
from neox_train.data.identity import digest_tokenizer
from neox_train.data.tokenizer_formats import byte_letters
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.data.upstream_tokenizer import TIKTOKEN, find_tokenizer
from neox_train.errors import ConfigError, DataError
from tests.config.files import load_tiny

from .test_fast_encoder import TEXTS

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return train_byte_level_bpe(TEXTS * 5, vocab_size=500, eod_token=END)


@pytest.fixture(scope="module")
def folder(trained: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vocab.json, merges.txt, tokenizer.json and a .tiktoken file of one tokenizer."""
    folder = tmp_path_factory.mktemp("files")
    trained.model.save(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    # GPT-2's own vocab.json has the end-of-document token too.
    (folder / "vocab.json").write_text(json.dumps({**vocabulary, END: trained.token_to_id(END)}))
    trained.save(str(folder / "whole.json"))
    values = {letter: byte for byte, letter in enumerate(byte_letters())}
    tokens = [bytes([byte]) for byte in range(256)]
    for pair in json.loads(trained.to_str())["model"]["merges"]:
        tokens.append(bytes(values[letter] for letter in "".join(pair)))
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
    for name in ("cl100k_base", "o200k_base", "p50k_base"):
        (folder / f"{name}.tiktoken").write_text("".join(lines := list(lines)))
    return folder


def settle(kind: str, file: Path | str | None = None, merges: Path | None = None) -> NeoxConfig:
    changes: dict[str, Any] = {"tokenizer_type": kind, "vocab_file": file and str(file)}
    return load_tiny(**changes, merge_file=merges and str(merges))


def encode(config: NeoxConfig) -> list[list[int]]:
    found = find_tokenizer(config)
    assert found is not None
    return found.load().encode_batch(TEXTS)


def test_gpt2s_two_files_and_a_tokenizer_json_are_one_tokenizer(folder: Path, trained: Tokenizer) -> None:
    pair = settle("GPT2BPETokenizer", folder / "vocab.json", folder / "merges.txt")
    whole = settle("hftokenizer", folder / "whole.json")
    assert encode(pair) == encode(whole)
    for config in (pair, whole):
        found = find_tokenizer(config)
        assert found is not None
        assert (found.vocab_size, found.eod_id) == (trained.get_vocab_size(), trained.token_to_id(END))
    assert digest_tokenizer(pair) != digest_tokenizer(whole)
    # A tokenizer.json under the default type, as a configuration without the key has it.
    assert encode(settle("GPT2BPETokenizer", folder / "whole.json")) == encode(whole)
    with pytest.raises(ConfigError, match="needs `merge_file`"):
        find_tokenizer(settle("GPT2BPETokenizer", folder / "vocab.json"))


def test_hfgpt2_reads_a_folder_and_adds_the_padding_token(folder: Path, trained: Tokenizer, tmp_path: Path) -> None:
    found = find_tokenizer(settle("HFGPT2Tokenizer", folder))
    assert found is not None
    assert (found.vocab_size, found.eod_id) == (trained.get_vocab_size() + 1, trained.token_to_id(END))
    assert encode(settle("HFGPT2Tokenizer", folder)) == encode(settle("HFTokenizer", folder / "whole.json"))
    (tmp_path / "tokenizer.json").write_bytes((folder / "whole.json").read_bytes())
    again = find_tokenizer(settle("HFGPT2Tokenizer", tmp_path))
    assert again is not None and again.vocab_size == found.vocab_size
    with pytest.raises(ConfigError, match="nothing is fetched"):
        find_tokenizer(settle("HFGPT2Tokenizer", tmp_path / "none"))


def test_characters_are_bytes_of_512_ids() -> None:
    config = settle("CharLevelTokenizer")
    found = find_tokenizer(config)
    assert found is not None and (found.vocab_size, found.eod_id) == (512, 0)
    assert encode(config) == [list(text.encode()) for text in TEXTS]
    assert config.model_copy(update={"vocab_file": "x"}) and digest_tokenizer(config)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base", "p50k_base"])
def test_tiktokens_encodings_are_known_by_name_and_read_from_their_file(folder: Path, name: str) -> None:
    by_name = find_tokenizer(settle("TiktokenTokenizer", name))
    by_file = find_tokenizer(settle("TiktokenTokenizer", folder / f"{name}.tiktoken"))
    assert by_name is not None and by_file is not None
    assert by_name.vocab_size == by_file.vocab_size == TIKTOKEN[name].num_ids
    tokenizer = by_file.load()
    assert tokenizer.eod_id == by_name.eod_id == TIKTOKEN[name].eod_id
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_batch(TEXTS)] == list(TEXTS)
    with pytest.raises(DataError, match=rf"set it to the path of {name}\.tiktoken"):
        by_name.load()
    with pytest.raises(ConfigError, match="no encoding of tiktoken"):
        find_tokenizer(settle("TiktokenTokenizer", "cl99k"))


def test_a_sentencepiece_model_counts_its_pieces(tmp_path: Path, cases: Path) -> None:
    pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    from sentencepiece import SentencePieceProcessor

    path = cases / "sentencepiece.model"
    own = SentencePieceProcessor(model_file=str(path))
    found = find_tokenizer(settle("SPMTokenizer", path))
    assert found is not None
    assert found.vocab_size == own.get_piece_size()
    assert found.eod_id == own.piece_to_id(END)
    assert found.load().eod_id == found.eod_id
    texts = ["one document", "  two words  "]
    assert found.load().encode_batch(texts) == [own.encode(text) for text in texts]


def test_what_is_no_tokenizer_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    assert find_tokenizer(settle("HFTokenizer")) is None
    assert digest_tokenizer(settle("HFTokenizer")) == ""
    with pytest.raises(DataError, match="cannot be read"):
        find_tokenizer(settle("HFTokenizer", tmp_path / "none.json"))
    with pytest.raises(DataError, match="cannot be read"):
        digest_tokenizer(settle("HFTokenizer", tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="tokenizer_type is 'WordTokenizer'; one of HFTokenizer, HFGPT2Tokenizer"):
        settle("WordTokenizer")
