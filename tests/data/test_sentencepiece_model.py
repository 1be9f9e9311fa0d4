"""SentencePiece models of every kind that is converted, against the library itself."""

import io
import json

import pytest

from neox_train.data.fast_encoder import FastEncoder
from neox_train.data.sentencepiece_model import read_sentencepiece
from neox_train.data.tokenizer import TextTokenizer
from neox_train.errors import DataError

from .test_tokenizer_formats import ALL

sentencepiece = pytest.importorskip(
    "sentencepiece.sentencepiece_model_pb2", reason="needs sentencepiece: pip install 'neox-train[sentencepiece]'"
)

TRAINED_ON = [*(line for text in ALL for line in text.splitlines() if line.strip()), "grüße aus Köln"] * 20


def train(folder, **options):
    """A model file and the library's own processor of it."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    content = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(TRAINED_ON),
        model_writer=content,
        vocab_size=500,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    (folder / "made.model").write_bytes(content.getvalue())
    return folder / "made.model", SentencePieceProcessor(model_proto=content.getvalue())


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("rule", ["identity", "nmt_nfkc"])
def test_ids_are_those_of_the_library(tmp_path, kind, byte_fallback, rule):
    path, own = train(tmp_path, model_type=kind, byte_fallback=byte_fallback, normalization_rule_name=rule)
    made = TextTokenizer(read_sentencepiece(path, "<|endoftext|>"), "<|endoftext|>", "made")
    texts = [*ALL, *TRAINED_ON[:50], "<s> is text, a</s> b too", "<|endoftext|> as well"]
    assert made.encode_batch(texts) == [own.encode(text) for text in texts]
    assert made.eod_id == own.get_piece_size()


def test_an_end_of_document_token_of_the_model_keeps_its_id(tmp_path):
    for kind in ("bpe", "unigram"):
        path, own = train(tmp_path, model_type=kind)
        made = TextTokenizer(read_sentencepiece(path, "</s>"), "</s>", "made")
        assert made.eod_id == own.eos_id()
        assert made.vocab_size == own.get_piece_size()
    # A unigram model sees the token in text; a document must not end inside.
    with pytest.raises(DataError, match="gives its end-of-document token for the text"):
        made.encode_batch(["a</s>b"])


def test_user_defined_pieces_are_exact_or_refused(tmp_path):
    path, own = train(tmp_path, model_type="bpe", user_defined_symbols=["<sep>", "==="])
    made = TextTokenizer(read_sentencepiece(path, "</s>"), "</s>", "made")
    texts = ["a<sep>b", "====a", "== === ====== b"]
    assert made.encode_batch(texts) == [own.encode(text) for text in texts]
    path, _ = train(tmp_path, model_type="unigram", user_defined_symbols=["==="])
    with pytest.raises(DataError, match="gives other ids than sentencepiece"):
        read_sentencepiece(path, "</s>")


def test_a_model_of_words_is_refused(tmp_path):
    path, _ = train(tmp_path, model_type="word")
    with pytest.raises(DataError, match="BPE or unigram is wanted"):
        read_sentencepiece(path, "</s>")


def test_a_sentencepiece_model_gives_the_ids_that_sentencepiece_gave(cases):
    """The model and the ids were made by sentencepiece itself: BPE, byte fallback, 330 pieces."""
    made = read_sentencepiece(cases / "sentencepiece.model", "</s>")
    recorded = json.loads((cases / "sentencepiece-ids.json").read_text())
    slow = TextTokenizer(made, "</s>", "made")
    texts = [text for text, _ in recorded]
    assert slow.encode_batch(texts) == [ids for _, ids in recorded]
    assert [slow.decode(ids) for _, ids in recorded] == texts
    fast = FastEncoder(slow).encode(texts)
    assert [fast[index].tolist() for index in range(len(fast))] == [ids for _, ids in recorded]


@pytest.mark.parametrize("content", [b"", b"text", bytes(100)])
def test_another_file_is_no_sentencepiece_model(tmp_path, content):
    (tmp_path / "bad.model").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.model is no SentencePiece model"):
        read_sentencepiece(tmp_path / "bad.model", "</s>")
