from __future__ import annotations

from pathlib import Path

import pytest
import transformers

from neox_train.checkpoint.hf_tokenizer import TOKENIZER_FILES, TokenizerSource, write_tokenizer
from neox_train.errors import DataError
from neox_train.files import sha256_file
from tests.checkpoint.trained_run import END_OF_DOCUMENT, make_tokenizer


def _source(path: Path, **changes: object) -> TokenizerSource:
    make_tokenizer(path)
    values = {
        "file": path,
        "sha256": sha256_file(path),
        "end_of_document": END_OF_DOCUMENT,
        "end_of_document_id": 0,
    } | changes
    return TokenizerSource(**values)  # type: ignore[arg-type]


def test_the_files_give_the_tokenizer_back(tmp_path: Path) -> None:
    source = _source(tmp_path / "tokenizer.json")
    write_tokenizer(tmp_path / "hf", source, max_tokens=64)
    assert sorted(path.name for path in (tmp_path / "hf").iterdir()) == sorted(TOKENIZER_FILES)
    assert sha256_file(tmp_path / "hf" / "tokenizer.json") == source.sha256
    # transformers looks for config.json to tell what kind of folder it is.
    (tmp_path / "hf" / "config.json").write_text('{"model_type": "gpt_neox"}')
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.model_max_length == 64
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, len(tokenizer)) == (0, 0, 300)
    for text in ("a  b\n\n\tc", "naïve ☃ 漢字", " lead", "don't , stop .", END_OF_DOCUMENT * 2):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.parametrize("changes", [{"end_of_document": "<|other|>"}, {"end_of_document_id": 5}])
def test_another_end_of_document_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(DataError, match="manifest says"):
        write_tokenizer(tmp_path / "hf", _source(tmp_path / "tokenizer.json", **changes), max_tokens=64)
