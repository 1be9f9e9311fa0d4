"""Plain tables that scroll sideways where the screen is narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from neox_train.monitoring.markup import Html, element


def write_table(head: Sequence[object], rows: Iterable[Sequence[object] | Html], *, class_: str | None = None) -> Html:
    """A table; each row is its cells, or a finished ``tr``."""
    body = [row if isinstance(row, Html) else write_row(row) for row in rows]
    names = element("tr", [element("th", name, scope="col") for name in head])
    table = element("table", element("thead", names), element("tbody", body), class_=class_)
    return element("div", table, class_="scroll")


def write_row(cells: Sequence[object], *, class_: str | None = None, heading: bool = False) -> Html:
    """One row of a table; all its cells are headings where ``heading``."""
    return element("tr", [element("th" if heading else "td", cell) for cell in cells], class_=class_)


def write_pairs(pairs: Iterable[tuple[str, object]]) -> Html:
    """A table of names and values; pairs without a value are left out."""
    rows = [write_row(pair) for pair in pairs if pair[1]]
    return element("table", element("tbody", rows), class_="kv")
