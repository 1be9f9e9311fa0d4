"""Building a dataset in one piece: survey, tokenizer, encoding, then all files into place, the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neox_train.data.encoding import encode_corpus
from neox_train.data.fingerprinting import fingerprint_alongside
from neox_train.data.installation import describe_tokens, install_dataset, scratch_folder
from neox_train.data.manifest import Dropped, Manifest, Split
from neox_train.data.sources import SourceFile, summarise_sources, write_sources
from neox_train.data.survey import make_tokenizer, survey_corpus
from neox_train.data.tokenizer import TextTokenizer
from neox_train.errors import DataError
from neox_train.files import sha256_file

if TYPE_CHECKING:
    from neox_train.config.layout import DatasetFolder
    from neox_train.config.pipeline import DatasetSpec


def build_dataset(
    spec: DatasetSpec, folder: DatasetFolder, files: Sequence[SourceFile], report: Callable[[str], None]
) -> Manifest:
    """Build the dataset in a scratch folder inside ``folder`` and put it into place; a failure leaves no rest."""
    with scratch_folder(folder) as scratch, fingerprint_alongside(files) as fingerprints:
        corpus = survey_corpus(spec, files, report)
        tokenizer = make_tokenizer(corpus, scratch, report)
        tokenizer_sha256 = sha256_file(scratch.tokenizer)
        encoded = encode_corpus(corpus, tokenizer, tokenizer_sha256, scratch.shard, report)
        records = fingerprints()
        write_sources(scratch.path, records)
        manifest = describe_dataset(spec, tokenizer, tokenizer_sha256, encoded.splits, encoded.dropped, records)
        install_dataset(scratch, folder, manifest)
        return manifest


def describe_dataset(
    spec: DatasetSpec,
    tokenizer: TextTokenizer,
    tokenizer_sha256: str,
    splits: dict[str, Split],
    dropped: Dropped,
    records: Sequence[dict[str, object]],
) -> Manifest:
    """The manifest of what was built; raises DataError where no document is left to train on."""
    if not splits["train"].documents:
        raise DataError(f"no document is left for the train split ({dropped}); give more text or raise `splits.train`")
    return describe_tokens(
        tokenizer,
        tokenizer_sha256,
        splits,
        sources=summarise_sources(records),
        dropped=dropped,
        spec=spec.content(),
    )
