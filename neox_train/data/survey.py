"""The first reading of a corpus: the rule that splits it, and the tokenizer where one is to be trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neox_train.data import limits
from neox_train.data.corpus import make_tally, read_documents
from neox_train.data.cutting import cut_document
from neox_train.data.dataset_tokenizer import place_tokenizer
from neox_train.data.documents import AnyDocument, Tally, UnfitDocumentError
from neox_train.data.progress import show_progress
from neox_train.data.sources import SourceFile
from neox_train.data.splits import KeyCollection, Splitter
from neox_train.data.tokenizer import TextTokenizer, load_tokenizer
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError
from neox_train.files import write_text

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_KEPT_BYTES = 1 << 26


@dataclass(frozen=True)
class Corpus:
    """A surveyed corpus, to be read as often as needed."""

    spec: DatasetSpec
    files: Sequence[SourceFile]
    splitter: Splitter
    num_bytes: int
    """Bytes of text; of a large corpus the bytes of its files."""
    kept: tuple[list[AnyDocument], Tally] | None = None
    """The documents of a corpus that is small enough to be parsed once, and what its reading left out."""

    def read(self) -> tuple[Iterable[AnyDocument], Tally]:
        """All documents from the first, and the tally of what is left out, whole when the last was read."""
        if self.kept is not None:
            documents, tally = self.kept
            return documents, replace(tally, samples=list(tally.samples))
        tally = make_tally(self.spec.source)
        return read_documents(self.spec.source, self.files, tally), tally


def survey_corpus(spec: DatasetSpec, files: Sequence[SourceFile], report: Callable[[str], None]) -> Corpus:
    """Read a small corpus whole: its shares are exact then. Of a large one the shares alone are the rule; reading ends
    where it has proved large. Raises DataError where no document is left.
    """
    shares = spec.splits.model_dump()
    source_bytes = sum(file.path.stat().st_size for file in files)
    if spec.tokenizer.file is not None and max(shares.values()) == sum(shares.values()):
        # All is one split, and nothing is to be trained on: there is nothing to find out.
        return Corpus(spec, files, Splitter(shares, spec.seed, None), source_bytes)
    tally = make_tally(spec.source)
    keys = KeyCollection(spec.seed)
    kept: list[AnyDocument] = []
    documents, num_bytes = 0, 0
    with show_progress("reading", source_bytes) as advance:
        for document in read_documents(spec.source, files, tally):
            keys.add(document.pieces())
            if keys.keys() is None:
                return Corpus(spec, files, Splitter(shares, spec.seed, None), source_bytes)
            documents += 1
            num_bytes += document.num_bytes
            if num_bytes <= _KEPT_BYTES:
                kept.append(document)
            elif kept:
                kept = []
            advance(document.num_bytes)
    if not documents:
        raise DataError(f"no document is left of {len(files)} source files ({tally}); give files with text")
    report(f"{documents} documents, {num_bytes / 1e6:.1f} MB of text ({tally})")
    splitter = Splitter(shares, spec.seed, keys.keys())
    return Corpus(spec, files, splitter, num_bytes, (kept, tally) if kept else None)


def make_tokenizer(corpus: Corpus, folder: DatasetFolder, report: Callable[[str], None]) -> TextTokenizer:
    """The dataset's tokenizer, copied into ``folder`` or trained there on the train split."""
    choice, end_of_document = corpus.spec.tokenizer, corpus.spec.end_of_document
    if choice.file is not None:
        return place_tokenizer(choice.file, folder, end_of_document)
    assert choice.vocab_size is not None
    with show_progress("training the tokenizer", corpus.num_bytes) as advance:
        tokenizer = train_byte_level_bpe(
            _train_texts(corpus, advance), vocab_size=choice.vocab_size, eod_token=end_of_document
        )
    write_text(folder.tokenizer, tokenizer.to_str(pretty=True) + "\n")
    loaded = load_tokenizer(folder.tokenizer, end_of_document)
    if loaded.vocab_size < choice.vocab_size:
        report(f"the train split has pairs for {loaded.vocab_size} of {choice.vocab_size} tokens")
    return loaded


def _train_texts(corpus: Corpus, advance: Callable[[int], None]) -> Iterator[str]:
    documents, tally = corpus.read()
    for document in documents:
        advance(document.num_bytes)
        if corpus.splitter.split_of(document.pieces()) == "train":
            # The trainer counts words, and its tokenizer ends words where this cuts: the counts are those of the whole.
            is_long = document.num_bytes > limits.LONG_DOCUMENT_BYTES
            try:
                yield from cut_document(document) if is_long else document.pieces()
            except UnfitDocumentError as error:
                # Where it is skipped, it is counted when the encoding leaves it out.
                if not tally.skip_errors:
                    tally.reject(str(error))
