"""Datasets of SentencePiece models: the ids in the store are those of the library itself."""

import json
import random

import pytest

from neox_train.data.store import TokenStore
from neox_train.data.tokenize import plan_dataset, tokenize_dataset, tokenize_shard
from neox_train.errors import DataError
from neox_train.files import sha256_file

from .test_sentencepiece_model import ALL, TRAINED_ON, train

# What the conversion of a unigram model reads otherwise: long runs of one character, characters that Unicode composes.
HARD = ["x" * length for length in range(2, 90)] + [
    "e\u0301" * 3 + "\u0345\u0344",
    "\u1112\u1161\u11ab",
    "<|endoftext|>",
]


def write_texts(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return path


def read_ids(folder, split="train"):
    store = TokenStore.open(folder.path, split)
    return [store.document(index).tolist() for index in range(store.num_documents)]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_a_dataset_has_the_ids_of_the_library(tmp_path, make_spec, build, folder, kind, rule):
    path, own = train(tmp_path, model_type=kind, byte_fallback=True, normalization_rule_name=rule)
    rng = random.Random(1)
    mixed = ["".join(rng.choice("ab xé\u0301漢ﬁ=_\t\u3000") for _ in range(40)) for _ in range(300)]
    texts = [text for text in [*HARD, *ALL, *TRAINED_ON[:40], *mixed] if own.encode(text)]
    manifest = build(make_spec(write_texts(tmp_path / "corpus.jsonl", texts), tokenizer=path))
    assert manifest.eod_id == own.get_piece_size() == manifest.vocab_size - 1
    assert read_ids(folder) == [[*own.encode(text), manifest.eod_id] for text in texts]
    assert manifest.provenance["packages"]["sentencepiece"]
    assert sha256_file(folder.sentencepiece) == sha256_file(path)
    assert sha256_file(folder.tokenizer) == manifest.tokenizer_sha256


def test_an_end_of_document_piece_in_text_is_text(tmp_path, make_spec, build, folder):
    """The converted tokenizer of a unigram model would give the piece's own id, and such a document be refused."""
    path, own = train(tmp_path, model_type="unigram", byte_fallback=True)
    spec = make_spec(write_texts(tmp_path / "corpus.jsonl", ["a</s>b"]), tokenizer=path)
    manifest = build(spec.model_copy(update={"end_of_document": "</s>"}))
    assert manifest.eod_id == own.eos_id()
    assert read_ids(folder) == [[*own.encode("a</s>b"), own.eos_id()]]


def test_another_model_makes_the_dataset_anew_and_another_kind_takes_the_model_away(
    tmp_path, make_spec, folder, byte_tokenizer
):
    path, _ = train(tmp_path, model_type="unigram")
    corpus = write_texts(tmp_path / "corpus.jsonl", TRAINED_ON[:20])
    told: list[str] = []

    def build(spec):
        told.clear()
        return tokenize_dataset(spec, folder, report=told.append)

    first = build(make_spec(corpus, tokenizer=path))
    assert build(make_spec(corpus, tokenizer=path)) == first and "nothing to do" in told[0]
    train(tmp_path, model_type="bpe")
    assert build(make_spec(corpus, tokenizer=path)).digest != first.digest
    assert told[0] == f"{folder.path}: {path} changed; tokenizing again"
    folder.sentencepiece.unlink()
    build(make_spec(corpus, tokenizer=path))
    assert "tokenizer.model cannot be read (No such file or directory); tokenizing again" in told[0]
    build(make_spec(corpus))
    assert not folder.sentencepiece.exists() and sha256_file(folder.tokenizer) == sha256_file(byte_tokenizer)


def test_shards_encode_with_the_library_too(tmp_path, make_spec, folder):
    path, own = train(tmp_path, model_type="unigram", byte_fallback=True)
    files = [write_texts(tmp_path / f"{name}.jsonl", [f"{name} {text}" for text in HARD]) for name in "ab"]
    spec = make_spec(*files, tokenizer=path).model_copy(update={"shards": 2})
    plan_dataset(spec, folder, report=lambda line: None)
    tokenize_shard(spec, folder, 1, report=lambda line: None)
    manifest = tokenize_dataset(spec, folder, report=lambda line: None)
    wanted = [own.encode(f"{name} {text}") for name in "ab" for text in HARD]
    assert read_ids(folder) == [[*ids, manifest.eod_id] for ids in wanted]
    assert sha256_file(folder.sentencepiece) == sha256_file(path)


def test_what_is_no_model_is_named_as_given(tmp_path, make_spec, build, folder):
    (tmp_path / "other.model").write_bytes(b"text")
    spec = make_spec(write_texts(tmp_path / "corpus.jsonl", ["a"]), tokenizer=tmp_path / "other.model")
    with pytest.raises(DataError, match=r"^\S*/other\.model is no SentencePiece model"):
        build(spec)
    assert not folder.tokenizer.exists() and not folder.manifest.exists()
