"""Building a dataset: survey, tokenizer, encoding, then all files into place, the manifest last."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from neox_train.data.corpus import make_tally, read_documents
from neox_train.data.documents import Document, Tally
from neox_train.data.encoded import EncodedBatch
from neox_train.data.encoding import write_splits
from neox_train.data.fast_encoder import FastEncoder, InexactEncodingError
from neox_train.data.installation import describe_origin, install_dataset, scratch_folder
from neox_train.data.manifest import Dropped, Manifest, Split, make_manifest
from neox_train.data.progress import show_progress
from neox_train.data.shards import store_dtype
from neox_train.data.sources import SourceFile, fingerprint_sources, summarise_sources, write_sources
from neox_train.data.splits import KeyCollection, Splitter
from neox_train.data.tokenizer import TextTokenizer, load_tokenizer
from neox_train.data.tokenizer_training import train_byte_level_bpe
from neox_train.errors import DataError
from neox_train.files import sha256_file, storage_errors, write_text

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec

_KEPT_BYTES = 1 << 26


def build_dataset(
    spec: DatasetSpec, folder: DatasetFolder, files: Sequence[SourceFile], report: Callable[[str], None]
) -> Manifest:
    """Build the dataset in a scratch folder inside ``folder`` and put it into place; a failure leaves no rest."""
    with scratch_folder(folder) as scratch:
        manifest = _Builder(spec, scratch, files, report).build()
        install_dataset(scratch, folder, manifest)
        return manifest


@dataclass
class _Builder:
    spec: DatasetSpec
    scratch: DatasetFolder
    files: Sequence[SourceFile]
    report: Callable[[str], None]
    kept: tuple[list[Document], Tally] | None = None
    """The documents of a corpus that is small enough to be parsed once, and what its reading left out."""

    def build(self) -> Manifest:
        # Hashes come first: a file that changes while it is read is then found changed by the next call.
        records = fingerprint_sources(self.files)
        splitter, num_bytes = self._survey(sum(record["bytes"] for record in records))
        tokenizer = self._make_tokenizer(splitter, num_bytes)
        tokenizer_sha256 = sha256_file(self.scratch.tokenizer)
        splits, dropped = self._encode(splitter, tokenizer, tokenizer_sha256, num_bytes)
        write_sources(self.scratch.path, records)
        return make_manifest(
            vocab_size=tokenizer.vocab_size,
            dtype=store_dtype(tokenizer.vocab_size).name,
            eod_token=tokenizer.eod_token,
            eod_id=tokenizer.eod_id,
            tokenizer_sha256=tokenizer_sha256,
            splits=splits,
            sources=summarise_sources(records),
            dropped=dropped,
            spec=self.spec.model_dump(mode="json"),
            provenance=describe_origin(),
        )

    def _survey(self, source_bytes: int) -> tuple[Splitter, int]:
        """The rule that splits this corpus, and its bytes. A small corpus is read whole: its shares are exact.

        Of a large one the shares alone are the rule; reading ends where it has proved large.
        """
        tally = make_tally(self.spec.source)
        keys = KeyCollection(self.spec.seed)
        shares = self.spec.splits.model_dump()
        kept: list[Document] = []
        documents, num_bytes = 0, 0
        with show_progress("reading", source_bytes) as advance:
            for document in read_documents(self.spec.source, self.files, tally):
                keys.add(document.text)
                if keys.keys() is None:
                    return Splitter(shares, self.spec.seed, None), source_bytes
                documents += 1
                num_bytes += document.num_bytes
                if num_bytes <= _KEPT_BYTES:
                    kept.append(document)
                elif kept:
                    kept = []
                advance(document.num_bytes)
        if not documents:
            raise DataError(f"no document is left of {len(self.files)} source files ({tally}); give files with text")
        self.report(f"{documents} documents, {num_bytes / 1e6:.1f} MB of text ({tally})")
        if kept:
            self.kept = kept, tally
        return Splitter(shares, self.spec.seed, keys.keys()), num_bytes

    def _read(self) -> tuple[Iterable[Document], Tally]:
        """All documents from the first, and the tally of what is left out, whole when the last was read."""
        if self.kept is not None:
            documents, tally = self.kept
            return documents, replace(tally, samples=list(tally.samples))
        tally = make_tally(self.spec.source)
        return read_documents(self.spec.source, self.files, tally), tally

    def _make_tokenizer(self, splitter: Splitter, num_bytes: int) -> TextTokenizer:
        choice = self.spec.tokenizer
        target = self.scratch.tokenizer
        if choice.file is not None:
            load_tokenizer(Path(choice.file), self.spec.end_of_document)
            with storage_errors(target):
                shutil.copyfile(choice.file, target)
            return load_tokenizer(target, self.spec.end_of_document)
        assert choice.vocab_size is not None
        with show_progress("training the tokenizer", num_bytes) as advance:
            tokenizer = train_byte_level_bpe(
                self._train_texts(splitter, advance),
                vocab_size=choice.vocab_size,
                eod_token=self.spec.end_of_document,
            )
        write_text(target, tokenizer.to_str(pretty=True) + "\n")
        loaded = load_tokenizer(target, self.spec.end_of_document)
        if loaded.vocab_size < choice.vocab_size:
            self.report(f"the train split has pairs for {loaded.vocab_size} of {choice.vocab_size} tokens")
        return loaded

    def _train_texts(self, splitter: Splitter, advance: Callable[[int], None]) -> Iterator[str]:
        for document in self._documents(advance):
            if splitter.split_of(document.text) == "train":
                yield document.text

    def _documents(self, advance: Callable[[int], None]) -> Iterator[Document]:
        for document in self._read()[0]:
            advance(document.num_bytes)
            yield document

    def _encode(
        self, splitter: Splitter, tokenizer: TextTokenizer, tokenizer_sha256: str, num_bytes: int
    ) -> tuple[dict[str, Split], Dropped]:
        def write(encode: Callable[[Sequence[str]], EncodedBatch]) -> tuple[dict[str, Split], Dropped]:
            return self._write(splitter, tokenizer, encode, tokenizer_sha256, num_bytes)

        try:
            return write(FastEncoder(tokenizer).encode)
        except InexactEncodingError as error:
            self.report(f"warning: {error}; the slower tokenizers library encodes this dataset")
        return write(tokenizer.encode)

    def _write(
        self,
        splitter: Splitter,
        tokenizer: TextTokenizer,
        encode: Callable[[Sequence[str]], EncodedBatch],
        tokenizer_sha256: str,
        num_bytes: int,
    ) -> tuple[dict[str, Split], Dropped]:
        documents, tally = self._read()
        with show_progress("encoding", num_bytes) as advance:
            splits = write_splits(
                documents,
                tally,
                names=list(self.spec.splits.model_dump()),
                splitter=splitter,
                tokenizer=tokenizer,
                encode=encode,
                tokenizer_sha256=tokenizer_sha256,
                shard_path=self.scratch.shard,
                advance=advance,
            )
        if not splits["train"].documents:
            raise DataError(
                f"no document is left for the train split ({tally}); give more text or raise `splits.train`"
            )
        return splits, tally.dropped()
