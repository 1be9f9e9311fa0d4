"""Mending wrongly decoded text (``â€™`` for ``'``) with the ftfy library, as GPT-NeoX's preparation does on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from neox_train.data import limits
from neox_train.data.documents import AnyDocument, Document, LongDocument, Tally, count_utf8_bytes
from neox_train.errors import DataError, install_extra


def mend_documents(documents: Iterable[AnyDocument], tally: Tally) -> Iterator[Document]:
    """Yield every document with its text mended; raises DataError where ftfy is not installed.

    A text that is too long is rejected.
    ftfy decides by what it saw before in the text: mending piece by piece would not be mending the whole.
    """
    fix_text = _find_ftfy()
    for document in documents:
        if isinstance(document, LongDocument):
            tally.reject(
                f"{document.place}: `source.ftfy` cannot mend a text of {document.num_bytes} bytes, up to "
                f"{limits.LONG_DOCUMENT_BYTES} are; split the document or remove the key"
            )
            continue
        text = fix_text(document.text)
        yield document._replace(text=text, num_bytes=count_utf8_bytes(text))


def _find_ftfy() -> Callable[[str], str]:
    try:
        from ftfy import fix_text
    except ImportError as error:
        raise DataError(
            "`source.ftfy: true` needs the package ftfy, which is not installed; "
            f"run {install_extra('ftfy')}, or remove the key"
        ) from error
    return fix_text
