"""Mending wrongly decoded text (``â€™`` for ``'``) with the ftfy library, as GPT-NeoX's preparation does on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from neox_train.data.documents import Document, count_utf8_bytes
from neox_train.errors import DataError


def mend_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield every document with its text mended; raises DataError where ftfy is not installed."""
    fix_text = _find_ftfy()
    for document in documents:
        text = fix_text(document.text)
        yield replace(document, text=text, num_bytes=count_utf8_bytes(text))


def _find_ftfy() -> Callable[[str], str]:
    try:
        from ftfy import fix_text
    except ImportError as error:
        raise DataError(
            '`source.ftfy: true` needs the package ftfy, which is not installed; run `pip install "neox-train[ftfy]"`, '
            "or remove the key"
        ) from error
    return fix_text
